// Go's own CPU profile of a program's work, and the end of such a program. A second file of gostacks.go and gocgo.go.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
)

// What the command line asks of the profile: `profiled`, that it is on; `profile=FILE`, that it is of the time from a line on standard
// input to SIGTERM, in this file; `rate=HZ` of it.
type ownProfile struct {
	written io.Writer
	waits   bool
	rate    int
}

// Takes a word of the command line, if it is one of the profile's.
func (p *ownProfile) take(word string) bool {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "profiled":
		p.written = io.Discard
	case "profile":
		file, err := os.Create(value)
		check(err)
		p.written, p.waits = file, true
	case "rate":
		rate, err := strconv.Atoi(value)
		check(err)
		p.rate = rate
	default:
		return false
	}
	return true
}

// Says that the program is at work, and goes on until SIGTERM.
func (p *ownProfile) untilTerminated() {
	fmt.Println("ready")
	if p.waits {
		_, err := fmt.Scanln(new(string))
		check(err)
	}
	if p.written != nil {
		if p.rate != 0 {
			// What follows says that it cannot set the rate again, and goes on with this one.
			runtime.SetCPUProfileRate(p.rate)
		}
		check(pprof.StartCPUProfile(p.written))
	}
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGTERM)
	<-over
	pprof.StopCPUProfile()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
