// Has more than 10,000 buckets in its heap profile: eight callers at some thirty depths allocate blocks of all sizes.
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
)

var keep [][]byte

//go:noinline
func nested(depth int) int {
	if depth == 0 {
		for size := 16; size <= 32768; size += size/8 + 8 {
			keep = append(keep, make([]byte, size))
		}
		return 1
	}
	return nested(depth-1) + 1
}

func main() {
	runtime.MemProfileRate = 1
	callers := []func(int) int{
		func(depth int) int { return nested(depth) + 1 },
		func(depth int) int { return nested(depth) + 2 },
		func(depth int) int { return nested(depth) + 3 },
		func(depth int) int { return nested(depth) + 4 },
		func(depth int) int { return nested(depth) + 5 },
		func(depth int) int { return nested(depth) + 6 },
		func(depth int) int { return nested(depth) + 7 },
		func(depth int) int { return nested(depth) + 8 },
	}
	for depth := 0; depth < 32; depth++ {
		for _, call := range callers {
			call(depth)
		}
	}
	runtime.GC()
	runtime.GC()
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	fmt.Println(listener.Addr())
	http.Serve(listener, nil)
}
