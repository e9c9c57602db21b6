// Three functions that allocate. After a line on standard input each does so, and the program collects its garbage; then it prints, for each,
// "site NAME OBJECTS BYTES OBJECTS_IN_USE BYTES_IN_USE", writes its own heap profile to the file that its argument names, and waits to be
// killed. `churn` keeps nothing, `keep` every third object, `large` the last one. Without goheap_profile.go nothing in it asks for the profile,
// so that its runtime takes no samples.
// Truth: runtime.goexit, runtime.main, main.main, one of main.churn, main.keep, main.large, then the runtime.
package main

import (
	"os"
	"runtime"
	"strconv"
)

const (
	churnBytes = 1024
	keepBytes  = 4864
	largeBytes = 2 << 20
)

var (
	writeProfile func(path string)
	sink         []byte
	kept         [][]byte
)

//go:noinline
func churn(n int) {
	for i := 0; i < n; i++ {
		sink = make([]byte, churnBytes)
	}
}

//go:noinline
func keep(n int) {
	for i := 0; i < n; i++ {
		object := make([]byte, keepBytes)
		if i%3 == 0 {
			kept = append(kept, object)
		}
	}
}

//go:noinline
func large(n int) {
	for i := 0; i < n; i++ {
		sink = make([]byte, largeBytes)
	}
}

func say(line string) {
	if _, err := os.Stdout.WriteString(line + "\n"); err != nil {
		os.Exit(1)
	}
}

func site(name string, objects, bytes, live int) {
	line := "site " + name
	for _, value := range []int{objects, objects * bytes, live, live * bytes} {
		line += " " + strconv.Itoa(value)
	}
	say(line)
}

func main() {
	const rounds, churned, each, larges = 200, 2000, 300, 2
	kept = make([][]byte, 0, rounds*each)
	say("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		os.Exit(1)
	}
	for i := 0; i < rounds; i++ {
		churn(churned)
		keep(each)
		large(larges)
	}
	for i := 0; i < 3; i++ {
		runtime.GC()
	}
	site("main.churn", rounds*churned, churnBytes, 0)
	site("main.keep", rounds*each, keepBytes, len(kept))
	site("main.large", rounds*larges, largeBytes, 1)
	if writeProfile != nil {
		writeProfile(os.Args[1])
	}
	say("done")
	// To the end of the input.
	for buffer := make([]byte, 64); ; {
		if _, err := os.Stdin.Read(buffer); err != nil {
			return
		}
	}
}
