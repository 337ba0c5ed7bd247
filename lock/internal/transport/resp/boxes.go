package resp

// maxBoxed is the longest argument that boxes keep.
const maxBoxed = 64

// keptBoxes is how many arguments of one length are kept. A turn of renewals has up to 4096 leases, each
// with a key and a field.
const keptBoxes = 2 * 4096

// boxes makes arguments for redigo without garbage. An argument is an interface
// value. To put bytes into an interface value takes an allocation, and each
// renewed lock needs two such arguments. So boxes keeps the buffers of earlier
// arguments, by length, and writes to them again. The zero value works. It is not
// safe for concurrent use.
type boxes struct {
	byLen [maxBoxed + 1]boxList
}

type boxList struct {
	all  []box
	used int
}

type box struct {
	buf []byte
	arg any // buf as an interface value
}

// copied returns text as an argument. The argument is valid until reset.
func (bs *boxes) copied(text []byte) any {
	if len(text) > maxBoxed {
		return string(text)
	}
	l := &bs.byLen[len(text)]
	if l.used == len(l.all) {
		buf := make([]byte, len(text))
		l.all = append(l.all, box{buf, buf})
	}
	b := &l.all[l.used]
	l.used++
	copy(b.buf, text)
	return b.arg
}

// reset makes the buffers of all arguments free for use. It drops those of a length that are more than
// keptBoxes.
func (bs *boxes) reset() {
	for i := range bs.byLen {
		l := &bs.byLen[i]
		if l.used = 0; len(l.all) > keptBoxes {
			l.all = nil
		}
	}
}
