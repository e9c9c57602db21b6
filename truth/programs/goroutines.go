// Many goroutines with deep and shallow stacks, growing stacks, and leaf functions without a frame.
// Truth: runtime.goexit, main.worker, main.outer, main.middle, main.inner, main.leaf; or main.deep repeated, main.leaf;
// below any of these there may be functions of the runtime.
package main

import (
	"fmt"
	"runtime"
	"time"
)

var sink [256]uint64

//go:noinline
func leaf(x uint64) uint64 { // no frame: it calls nothing and keeps nothing on the stack
	for i := uint64(0); i < 40; i++ {
		x = x*31 + i
	}
	return x
}

//go:noinline
func inner(x uint64) uint64 { return leaf(x) + 1 }

//go:noinline
func middle(x uint64) uint64 {
	var buffer [96]uint64
	buffer[x%96] = x
	return inner(x) + buffer[(x+1)%96]
}

//go:noinline
func outer(x uint64) uint64 { return middle(x) + 1 }

//go:noinline
func deep(n int, x uint64) uint64 {
	if n == 0 {
		return leaf(x) + 1
	}
	return deep(n-1, x) + 1
}

func worker(id int) {
	for n := uint64(0); ; n++ {
		for i := 0; i < 200; i++ {
			sink[id%256] += outer(n)
		}
		sink[id%256] += deep(100, n)
		if n%16 == 0 {
			runtime.Gosched()
		}
	}
}

func main() {
	for i := 0; i < 200; i++ {
		go worker(i)
	}
	time.Sleep(200 * time.Millisecond)
	fmt.Println("ready")
	time.Sleep(5 * time.Minute)
}
