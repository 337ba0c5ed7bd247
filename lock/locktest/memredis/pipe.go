package memredis

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeSize is how many bytes one direction of a pipe holds before writers wait.
const pipeSize = 256 << 10

// pipe returns the two ends of an in-memory connection. Like a socket, it holds
// the written bytes until they are read. net.Pipe holds no bytes. With it a client
// that writes many commands before it reads the answers would wait for ever,
// because the server waits until its first answer is read. All waits of a pipe are
// of kinds that a synctest bubble counts as idle.
func pipe() (client, server net.Conn) {
	up, down := newFlow(), newFlow()
	return &pipeEnd{in: down, out: up}, &pipeEnd{in: up, out: down}
}

// pipeEnd is one end of a pipe.
type pipeEnd struct {
	in, out *flow // immutable
}

func (e *pipeEnd) Read(b []byte) (int, error) { return e.in.read(b) }

// TryRead is like Read, but returns 0, nil where Read would wait. A client uses it to look
// whether an answer has come, as it does on a socket.
func (e *pipeEnd) TryRead(b []byte) (int, error) { return e.in.tryRead(b) }

func (e *pipeEnd) Write(b []byte) (int, error) { return e.out.write(b) }

// Close ends both directions. The other end reads the bytes that are left, then EOF.
func (e *pipeEnd) Close() error {
	e.in.closeReading()
	e.out.closeWriting()
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return memoryAddr{} }
func (e *pipeEnd) RemoteAddr() net.Addr { return memoryAddr{} }

func (e *pipeEnd) SetDeadline(t time.Time) error {
	e.in.readEnd.set(e.in, t)
	e.out.writeEnd.set(e.out, t)
	return nil
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.readEnd.set(e.in, t)
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.out.writeEnd.set(e.out, t)
	return nil
}

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// flow is one direction of a pipe.
type flow struct {
	cond *sync.Cond // cond.L guards the fields below; signalled at every change

	buf         []byte
	readClosed  bool
	writeClosed bool
	readEnd     deadline
	writeEnd    deadline
}

func newFlow() *flow { return &flow{cond: sync.NewCond(new(sync.Mutex))} }

func (f *flow) read(b []byte) (int, error) {
	f.cond.L.Lock()
	defer f.cond.L.Unlock()
	for {
		if f.readEnd.passed() && !f.readClosed {
			return 0, os.ErrDeadlineExceeded
		}
		if n, err := f.takeLocked(b); n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		f.cond.Wait()
	}
}

// tryRead reads without waiting, whatever the deadline is.
func (f *flow) tryRead(b []byte) (int, error) {
	f.cond.L.Lock()
	defer f.cond.L.Unlock()
	return f.takeLocked(b)
}

// takeLocked moves the bytes that are there to b. It returns 0, nil if there are none.
func (f *flow) takeLocked(b []byte) (int, error) {
	switch {
	case f.readClosed:
		return 0, net.ErrClosed
	case len(f.buf) > 0:
		n := copy(b, f.buf)
		f.buf = append(f.buf[:0], f.buf[n:]...)
		f.cond.Broadcast()
		return n, nil
	case f.writeClosed:
		return 0, io.EOF
	}
	return 0, nil
}

func (f *flow) write(b []byte) (int, error) {
	f.cond.L.Lock()
	defer f.cond.L.Unlock()
	written := 0
	for {
		switch {
		case f.writeClosed:
			return written, net.ErrClosed
		case f.readClosed:
			return written, io.ErrClosedPipe
		case f.writeEnd.passed():
			return written, os.ErrDeadlineExceeded
		}
		if n := min(len(b), pipeSize-len(f.buf)); n > 0 {
			f.buf = append(f.buf, b[:n]...)
			b, written = b[n:], written+n
			f.cond.Broadcast()
		}
		if len(b) == 0 {
			return written, nil
		}
		f.cond.Wait()
	}
}

func (f *flow) closeReading() {
	f.cond.L.Lock()
	defer f.cond.L.Unlock()
	f.readClosed = true
	f.buf = nil
	f.readEnd.stop()
	f.cond.Broadcast()
}

func (f *flow) closeWriting() {
	f.cond.L.Lock()
	defer f.cond.L.Unlock()
	f.writeClosed = true
	f.writeEnd.stop()
	f.cond.Broadcast()
}

// deadline is a net.Conn's deadline for one direction. The lock of the flow guards
// the deadline.
type deadline struct {
	at    time.Time // zero: none
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) set(f *flow, t time.Time) {
	f.cond.L.Lock()
	defer f.cond.L.Unlock()
	d.stop()
	d.at = t
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			// With the lock held, the waiter has either seen that d.at has passed or is
			// in Wait, so it does not miss the signal.
			f.cond.L.Lock()
			defer f.cond.L.Unlock()
			f.cond.Broadcast()
		})
	}
	f.cond.Broadcast()
}
