package carrier

// maxBoxed is the longest argument that boxes keep.
const maxBoxed = 64

// boxes make arguments for redigo without garbage. An argument is an interface
// value, and to make one of a string takes an allocation, two for each lock that
// is renewed; so buffers that were made arguments once are kept, by length, and
// written to again. The zero value is ready. Not safe for concurrent use.
type boxes struct {
	byLen [maxBoxed + 1]boxList
}

type boxList struct {
	all  []box
	used int
}

type box struct {
	buf []byte
	arg any // buf
}

// copied returns text as an argument that is valid until reset.
func copied[T string | []byte](bs *boxes, text T) any {
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

// reset lets all arguments be used again.
func (bs *boxes) reset() {
	for i := range bs.byLen {
		bs.byLen[i].used = 0
	}
}
