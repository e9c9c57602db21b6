// Allocates objects of 16 to 80 bytes, which the runtime collects, and nothing else. Each 50 ms it prints "count OBJECTS CPU_NS", both since its
// start. The runtime samples, because the program refers to its profile.
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"syscall"
	"time"
)

var sink []byte

//go:noinline
func object(n int) {
	sink = make([]byte, 16+n%65)
}

func cpu() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		os.Exit(1)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func main() {
	if len(os.Args) > 1 {
		if pprof.WriteHeapProfile(os.Stderr) != nil {
			os.Exit(1)
		}
	}
	fmt.Println("ready")
	last := time.Now()
	for objects := 0; ; {
		for i := 0; i < 64; i++ {
			object(objects)
			objects++
		}
		if time.Since(last) >= 50*time.Millisecond {
			last = time.Now()
			fmt.Println("count", objects, cpu())
		}
	}
}
