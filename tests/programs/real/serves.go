// Holds 64 MiB in blocks of three sizes, serves its profiles on a free port of the loopback address that it prints, and ends
// with its input.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
)

var kept [][]byte

//go:noinline
func hold(size, count int) {
	for ; count > 0; count-- {
		kept = append(kept, make([]byte, size))
	}
}

//go:noinline
func churn() {
	for range 1000 {
		kept[0] = make([]byte, 32<<10)
	}
}

func main() {
	hold(16<<10, 1024)
	hold(256<<10, 128)
	hold(4<<20, 4)
	churn()
	runtime.GC()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	http.Handle("/moved", http.RedirectHandler("/debug/pprof/heap", http.StatusFound))
	secure := "https://" + listener.Addr().String() + "/debug/pprof/heap"
	http.Handle("/secure", http.RedirectHandler(secure, http.StatusFound))
	http.Handle("/circle", http.RedirectHandler("/circle", http.StatusFound))
	go http.Serve(listener, nil)
	fmt.Println(listener.Addr())
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(kept)
}
