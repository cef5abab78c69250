// 100 MiB on Go's heap, 4 MiB from malloc. Says "ready" and waits.
package main

/*
#include <stdlib.h>
#include <string.h>

static void *c_allocate(size_t size) { return memset(malloc(size), 7, size); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"time"
)

func main() {
	mine := make([]byte, 100<<20)
	for index := range mine {
		mine[index] = 1
	}
	theirs := C.c_allocate(4 << 20)
	fmt.Println("ready")
	time.Sleep(time.Hour)
	runtime.KeepAlive(mine)
	C.free(theirs)
}
