// Work of which much is done beside the goroutine's stack, each kind in functions of its own: `gostacks KIND...`.
// Truth: runtime.goexit, main.KIND, what it calls; when the runtime is at work for a goroutine, on the thread's own stack or
// on the signal stack, its functions stand below those of the goroutine. The runtime's own threads and goroutines begin at
// runtime.goexit, runtime.mstart or, when the scheduler has taken the goroutine off its thread, runtime.mstart0.
package main

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

var sink [64]uint64

// Calls of the vdso, on the thread's own stack.
//
//go:noinline
func now(id int) {
	for {
		for i := 0; i < 1000; i++ {
			sink[id] += uint64(time.Now().UnixNano())
		}
		for i := 0; i < 1000; i++ {
			start := time.Now()
			sink[id] += uint64(time.Since(start))
		}
	}
}

type node struct {
	next *node
	data [6]uint64
}

// Allocates small objects, slices, maps and strings, and lets them go: mallocgc, refills, help with the collection, sweeping.
//
//go:noinline
func allocate(id int) {
	var kept [256]*node
	for n := 0; ; n++ {
		var list *node
		for i := 0; i < 64; i++ {
			list = &node{next: list}
		}
		kept[n%256] = list
		words := map[string]int{}
		for i := 0; i < 16; i++ {
			words["word "+strconv.Itoa(n+i)] = i
		}
		large := make([]byte, 1024+n%65536)
		sink[id] += uint64(len(words) + len(large) + int(kept[n*7%256].get()))
	}
}

//go:noinline
func (n *node) get() uint64 {
	if n == nil {
		return 0
	}
	return n.data[0]
}

//go:noinline
func deep(n int, x uint64) uint64 {
	var room [256]uint64
	room[n%256] = x
	if n == 0 {
		return x
	}
	return deep(n-1, x+1) + room[(n+1)%256]
}

// Goroutines that begin with a small stack and need a large one: morestack, newstack, copystack.
//
//go:noinline
func grow(id int) {
	for {
		done := make(chan uint64)
		go grown(id, done)
		sink[id] += <-done
	}
}

//go:noinline
func grown(id int, done chan uint64) { done <- deep(40, uint64(id)) }

// Two goroutines that wait for one another: mcall, park_m, the scheduler.
//
//go:noinline
func exchange(id int) {
	there, back := make(chan uint64), make(chan uint64)
	go answer(there, back)
	for {
		there <- 1
		sink[id] += <-back
	}
}

//go:noinline
func answer(there, back chan uint64) {
	for x := range there {
		back <- x + 1
	}
}

// Gives up its thread.
//
//go:noinline
func yield(id int) {
	for {
		runtime.Gosched()
		sink[id]++
	}
}

// Signals for the program: sigtramp on the signal stack, over any other stack.
//
//go:noinline
func signals(id int) {
	arrived := make(chan os.Signal, 16)
	signal.Notify(arrived, syscall.SIGUSR1)
	pid := os.Getpid()
	for {
		_ = syscall.Kill(pid, syscall.SIGUSR1)
		<-arrived
		sink[id]++
	}
}

// A loop without calls: the runtime takes it off its thread by a signal.
//
//go:noinline
func loop(id int) {
	x := uint64(id)
	for {
		x = x*31 + 1
		if x == 7 {
			sink[id]++
		}
	}
}

// System calls.
//
//go:noinline
func calls(id int) {
	for {
		sink[id] += uint64(syscall.Getppid())
	}
}

// Recovers from panics: gopanic, recovery, deferred calls.
//
//go:noinline
func panics(id int) {
	for {
		sink[id] += fall(id, 8)
	}
}

//go:noinline
func fall(id, n int) (x uint64) {
	if n == 0 {
		panic(id)
	}
	if n == 8 {
		defer caught(&x)
	}
	return fall(id, n-1) + 1
}

//go:noinline
func caught(x *uint64) {
	if recover() != nil {
		*x = 1
	}
}

// `KIND...`, and words of goprofile.go.
func main() {
	kinds := map[string]func(int){
		"now": now, "allocate": allocate, "grow": grow, "exchange": exchange, "yield": yield, "signals": signals, "loop": loop,
		"calls": calls, "panics": panics,
	}
	var own ownProfile
	for i, word := range os.Args[1:] {
		if !own.take(word) {
			go kinds[word](i)
		}
	}
	time.Sleep(200 * time.Millisecond)
	own.untilTerminated()
}
