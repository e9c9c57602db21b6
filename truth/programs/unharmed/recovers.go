// Panics that are recovered, goroutines and collections of garbage, and the exit status.
package main

import (
	"os"
	"runtime"
	"strconv"
	"sync"
)

//go:noinline
func nested(depth int, value int) int {
	buffer := make([]byte, 100+depth)
	if depth == 0 {
		panic(value)
	}
	return nested(depth-1, value) + len(buffer)
}

func recovered(value int) (result int) {
	defer func() { result = recover().(int) }()
	return nested(value%20, value)
}

func main() {
	var group sync.WaitGroup
	sums := make([]int, 8)
	for at := range sums {
		group.Add(1)
		go func(at int) {
			defer group.Done()
			for i := 0; i < 2000; i++ {
				sums[at] += recovered(i + at)
			}
		}(at)
	}
	group.Wait()
	runtime.GC()
	total := 0
	for _, sum := range sums {
		total += sum
	}
	os.Stdout.WriteString(strconv.Itoa(total) + "\n")
	os.Exit(17)
}
