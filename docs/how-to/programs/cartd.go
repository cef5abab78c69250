// Keeps the carts of a shop, and renders their pages: "cartd hold", "cartd open", "cartd wait", "cartd render", "cartd render pool".
package main

import (
	"bytes"
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

type cart struct {
	items [120]int64
	owner string
}

var carts = map[int]*cart{}

var pages = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func openCart(user int) {
	carts[user] = &cart{owner: fmt.Sprint("user ", user)}
}

func renderPage(c *cart, page *bytes.Buffer) int {
	for _, item := range c.items {
		page.WriteString("<li>")
		page.Write(strconv.AppendInt(page.AvailableBuffer(), item, 10))
		page.WriteString(" pieces for ")
		page.WriteString(c.owner)
	}
	return page.Len()
}

func openForever() {
	for user := len(carts); ; user++ {
		openCart(user)
		renderPage(carts[user], new(bytes.Buffer))
		time.Sleep(200 * time.Microsecond)
	}
}

func reserve(answer chan bool) {
	<-answer
}

func checkOut() {
	go reserve(make(chan bool))
}

func checkOutForever() {
	for {
		checkOut()
		time.Sleep(2 * time.Millisecond)
	}
}

func serve(usePool bool) {
	for user := 0; ; user = (user + 1) % len(carts) {
		if usePool {
			page := pages.Get().(*bytes.Buffer)
			page.Reset()
			renderPage(carts[user], page)
			pages.Put(page)
		} else {
			renderPage(carts[user], new(bytes.Buffer))
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func main() {
	count := 20000
	if os.Args[1] == "hold" {
		count = 1000000
	}
	for user := 0; user < count; user++ {
		openCart(user)
	}
	// As under load, where collections go on.
	runtime.GC()
	runtime.GC()
	fmt.Println("ready")
	go http.ListenAndServe("localhost:0", nil)
	switch os.Args[1] {
	case "open":
		openForever()
	case "wait":
		checkOutForever()
	case "render":
		serve(len(os.Args) > 2)
	}
	select {}
}
