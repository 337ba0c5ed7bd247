package redistest

import (
	"io"
	"strings"
	"sync"
)

// logTail keeps the last bytes that are written to it.
type logTail struct {
	tee io.Writer // immutable; may be nil

	mu  sync.Mutex // guards buf
	buf []byte
}

const tailSize = 16 << 10

func (t *logTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailSize; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	if t.tee != nil {
		// A log that cannot be written is no reason to fail: exec would stop
		// copying, and the server block on its next line.
		_, _ = t.tee.Write(b)
	}
	return len(b), nil
}

func (t *logTail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = t.buf[:0]
}

func (t *logTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}
