// Sums numbers in the encoding of protocol buffers. The decoder is hot, and larger than what the compiler inlines without a profile.
package main

import (
	"fmt"
	"os"
	"strconv"
)

// decode gives the number that begins at a byte, and where the next one begins; -1 if the bytes are no number.
func decode(bytes []byte, at int) (uint64, int) {
	first := bytes[at]
	if first < 0x80 {
		return uint64(first), at + 1
	}
	value := uint64(first & 0x7f)
	for shift := uint(7); shift < 64; shift += 7 {
		at++
		if at == len(bytes) {
			return 0, -1
		}
		if shift == 63 && bytes[at] > 1 {
			return 0, -1
		}
		value |= uint64(bytes[at]&0x7f) << shift
		if bytes[at] < 0x80 {
			return value, at + 1
		}
	}
	return 0, -1
}

//go:noinline
func sum(bytes []byte) uint64 {
	var sum uint64
	for at := 0; at >= 0 && at < len(bytes); {
		var value uint64
		value, at = decode(bytes, at)
		sum += value
	}
	return sum
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	var bytes []byte
	for number := 0; number < 100000; number++ {
		if number%64 == 0 {
			bytes = append(bytes, 0x81, 0x02)
		} else {
			bytes = append(bytes, byte(number%128))
		}
	}
	var result uint64
	for round := 0; round < rounds; round++ {
		result += sum(bytes)
	}
	fmt.Println(result)
}
