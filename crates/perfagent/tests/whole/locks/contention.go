// Goroutines that wait for mutexes, read-write locks, wait groups, conditions and channels, a known number of times. It begins when it reads a byte, writes
// Go's own profile of the same waits to the file that it was given, and prints a number.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

const rounds = 100

var mu sync.Mutex
var rw sync.RWMutex

//go:noinline
func waitForMutex() { mu.Lock(); mu.Unlock() }

//go:noinline
func waitToRead() { rw.RLock(); rw.RUnlock() }

//go:noinline
func waitForGroup(group *sync.WaitGroup) { group.Wait() }

//go:noinline
func waitForSignal(cond *sync.Cond, done *bool) {
	cond.L.Lock()
	for !*done {
		cond.Wait()
	}
	cond.L.Unlock()
}

//go:noinline
func receive(values chan int) { <-values }

//go:noinline
func send(values chan int) { values <- 1 }

//go:noinline
func choose(one, other chan int) {
	select {
	case <-one:
	case <-other:
	}
}

//go:noinline
func releaseMutex() { mu.Unlock() }

// Waits in a goroutine of its own, and lets go 2 ms after that has begun.
func round(wait func(), release func()) {
	begun, ended := make(chan bool), make(chan bool, 1)
	go func() {
		close(begun)
		wait()
		ended <- true
	}()
	<-begun
	time.Sleep(2 * time.Millisecond)
	release()
	for len(ended) == 0 {
		time.Sleep(50 * time.Microsecond)
	}
}

func main() {
	byte := make([]byte, 1)
	os.Stdin.Read(byte)
	runtime.SetBlockProfileRate(1)
	for i := 0; i < rounds; i++ {
		mu.Lock()
		round(waitForMutex, releaseMutex)
		rw.Lock()
		round(waitToRead, rw.Unlock)
		var group sync.WaitGroup
		group.Add(1)
		round(func() { waitForGroup(&group) }, group.Done)
		cond, done := sync.NewCond(&sync.Mutex{}), false
		round(func() { waitForSignal(cond, &done) }, func() {
			cond.L.Lock()
			done = true
			cond.L.Unlock()
			cond.Broadcast()
		})
		values, other := make(chan int), make(chan int)
		round(func() { receive(values) }, func() { values <- 1 })
		round(func() { send(values) }, func() { <-values })
		round(func() { choose(values, other) }, func() { other <- 1 })
	}
	runtime.SetBlockProfileRate(0)
	file, _ := os.Create(os.Args[1])
	pprof.Lookup("block").WriteTo(file, 0)
	file.Close()
	fmt.Println(rounds)
	time.Sleep(time.Hour)
}
