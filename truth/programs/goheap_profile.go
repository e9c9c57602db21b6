// A second file of goheap.go, by which it has a heap profile.
package main

import (
	"os"
	"runtime/pprof"
)

func init() {
	writeProfile = func(path string) {
		file, err := os.Create(path)
		if err != nil || pprof.WriteHeapProfile(file) != nil || file.Close() != nil {
			os.Exit(1)
		}
	}
}
