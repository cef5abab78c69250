// Memory of C in Go, from many goroutines and system threads; ends with status 4.
package main

/*
#include <stdlib.h>
#include <string.h>

static void *c_allocate(size_t size) {
	void *block = malloc(size);
	memset(block, 7, size);
	return block;
}
static int c_first(void *block) { return *(char *)block; }
static void c_release(void *block) { free(block); }
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

func main() {
	// The first sample comes before there are threads.
	C.c_release(C.c_allocate(4 << 20))
	var group sync.WaitGroup
	sums := make([]int, 8)
	for mine := range sums {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := 0; number < 2000; number++ {
				block := C.c_allocate(C.size_t(1000 + number))
				sums[mine] += int(C.c_first(block))
				if number%20 != 0 {
					C.c_release(block)
				}
				sums[mine] += len(strings.Repeat("go", number))
			}
		}()
	}
	group.Wait()
	fmt.Println(sums)
	os.Exit(4)
}
