// C functions that call back into Go, from goroutines, and from threads that C made: `gocgo KIND...`; as a shared library
// (`-buildmode=c-shared`) the same for a C program (gohost.c).
// Truth: runtime.goexit, main.KIND, runtime.cgocall, C functions, runtime.cgocallback, Go functions; from a thread of C: its
// first function, Go functions.
package main

/*
#include <pthread.h>
#include <stdlib.h>

extern unsigned long go_work(unsigned long);
extern unsigned long go_busy(unsigned long);

static __attribute__((noinline)) unsigned long c_spin(unsigned long x)
{
	for (int i = 0; i < 2000; i++)
		x = x * 31 + 1;
	__asm__ volatile("" : "+r"(x));
	return x;
}

static __attribute__((noinline)) unsigned long c_back(unsigned long x)
{
	unsigned long y = go_work(x) + 1;

	__asm__ volatile("" : "+r"(y));
	return y;
}

static void *c_thread(void *x)
{
	for (;;)
		x = (void *)c_back((unsigned long)x);
	return x;
}

static int c_compare(const void *a, const void *b)
{
	unsigned long x = go_busy(*(const unsigned long *)a), y = *(const unsigned long *)b;

	return x < y ? -1 : x > y;
}

static void c_sort(unsigned long *words, unsigned long n)
{
	qsort(words, n, sizeof(*words), c_compare);
}

static void c_start_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, c_thread, NULL);
}
*/
import "C"

import (
	"os"
	"time"
)

var kept [64][]byte

// Called from C: some work of its own, an allocation, the time.
//
//export go_work
func go_work(x C.ulong) C.ulong {
	for i := C.ulong(0); i < 500; i++ {
		x = x*31 + i
	}
	kept[x%64] = make([]byte, 256)
	return x + C.ulong(time.Now().UnixNano()&1)
}

//export go_busy
func go_busy(x C.ulong) C.ulong {
	busy(x)
	return x
}

//go:noinline
func busy(x C.ulong) {
	for i := C.ulong(0); i < 200; i++ {
		x = x*31 + i
	}
	kept[x%64] = nil
}

// C without a callback.
//
//go:noinline
func into() {
	for x := C.ulong(0); ; {
		x = C.c_spin(x)
	}
}

// Callbacks.
//
//go:noinline
func back() {
	for x := C.ulong(0); ; {
		x = C.c_back(x)
	}
}

// Callbacks below a function of the C library.
//
//go:noinline
func sorted() {
	var words [64]C.ulong
	for n := C.ulong(1); ; n++ {
		for i := range words {
			words[i] = n * C.ulong(i*7919) % 101
		}
		C.c_sort(&words[0], 64)
	}
}

//export go_start
func go_start(kind *C.char) { start(C.GoString(kind)) }

func start(kind string) {
	switch kind {
	case "into":
		go into()
	case "back":
		go back()
	case "sorted":
		go sorted()
	case "thread":
		C.c_start_thread()
	default:
		panic(kind)
	}
}

// `KIND...`, and words of goprofile.go.
func main() {
	var own ownProfile
	for _, word := range os.Args[1:] {
		if !own.take(word) {
			start(word)
		}
	}
	time.Sleep(200 * time.Millisecond)
	own.untilTerminated()
}
