// Two goroutines that pass numbers to each other as fast as they can. It begins when it reads a byte, and prints a number at the end.
package main

import (
	"fmt"
	"os"
)

const rounds = 1000000

func main() {
	byte := make([]byte, 1)
	os.Stdin.Read(byte)
	there, back := make(chan int), make(chan int)
	go func() {
		for value := range there {
			back <- value
		}
	}()
	for i := 0; i < rounds; i++ {
		there <- i
		<-back
	}
	fmt.Println(rounds)
}
