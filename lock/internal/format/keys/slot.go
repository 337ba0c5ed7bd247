package keys

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 16384

// Slot returns the slot of a key in a Cluster. That is the CRC-16 (XMODEM) of the
// key, or of the text between its first { and the next } if that is not empty.
func Slot(key string) int {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	return int(crc16(key) % Slots)
}

// crcNibble is the CRC of each half byte.
var crcNibble = [16]uint16{
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
	0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
}

func crc16(s string) uint16 {
	crc := uint16(0)
	for i := range len(s) {
		crc = crc<<4 ^ crcNibble[crc>>12^uint16(s[i]>>4)]
		crc = crc<<4 ^ crcNibble[crc>>12^uint16(s[i]&15)]
	}
	return crc
}

// slotTags returns for each slot the smallest number whose decimal text is in the
// slot. The numbers are the same in every client and version, so all clients use
// the same counter of a slot.
var slotTags = sync.OnceValue(func() *[Slots]uint32 {
	var tags [Slots]uint32
	var found [Slots]bool
	for n, left := uint32(0), Slots; left > 0; n++ {
		if s := Slot(strconv.Itoa(int(n))); !found[s] {
			tags[s], found[s] = n, true
			left--
		}
	}
	return &tags
})

// CheckSlot refuses a name whose derived names, such as the channel, would be in
// another slot of a Cluster.
func CheckSlot(name string) error {
	open, shut := strings.IndexByte(name, '{'), strings.IndexByte(name, '}')
	switch {
	case open < 0 && shut < 0:
		return nil
	case open < 0 || shut >= 0 && shut < open:
		return fmt.Errorf("lock: the name %.100q has a } without a { before it: in a Cluster braces mark the hash tag, use both or none", name)
	case shut < 0:
		return fmt.Errorf("lock: the name %.100q has a { without a } after it: in a Cluster braces mark the hash tag, use both or none", name)
	case shut == open+1:
		return fmt.Errorf("lock: the name %.100q has an empty hash tag {}: in a Cluster put something into it or leave it out", name)
	}
	return nil
}
