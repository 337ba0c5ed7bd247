package faultproxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A Link is a network with a high latency. A dial through it takes one round trip, and every byte takes
// half of one. It carries any protocol, also TLS, and does not limit the rate. All methods are safe for
// concurrent use.
type Link struct {
	roundTrip time.Duration  // immutable
	wg        sync.WaitGroup // every goroutine

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]bool
	closed bool
}

// errLinkClosed is returned by a Dial after Close.
var errLinkClosed = errors.New("faultproxy: the link is closed")

// NewLink returns a Link whose round trips take that long.
func NewLink(roundTrip time.Duration) *Link {
	return &Link{roundTrip: roundTrip, conns: map[net.Conn]bool{}}
}

// Dial connects to an address through the link, as net.Dialer.DialContext does. It returns a real TCP
// connection.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	way := time.NewTimer(l.roundTrip)
	defer way.Stop()
	select {
	case <-way.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	far, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		far.Close()
		return nil, err
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		far.Close()
		return nil, err
	}
	near, err := ln.Accept()
	if err != nil || !l.join(near, far) {
		client.Close()
		far.Close()
		return nil, errors.Join(err, errLinkClosed)
	}
	return client, nil
}

// join carries bytes between two connections until one of them ends.
func (l *Link) join(near, far net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		near.Close()
		return false
	}
	l.conns[near], l.conns[far] = true, true
	l.carry(near, far)
	l.carry(far, near)
	return true
}

// parcel is what came in one read.
type parcel struct {
	bytes []byte
	due   time.Time
}

// carry carries bytes in one direction.
func (l *Link) carry(from, to net.Conn) {
	under := make(chan parcel, 1024)
	l.wg.Go(func() {
		defer close(under)
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			if n > 0 {
				under <- parcel{b[:n], time.Now().Add(l.roundTrip / 2)}
			}
			if err != nil {
				return
			}
		}
	})
	l.wg.Go(func() {
		for p := range under {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.bytes) // if to has ended, the rest is lost
		}
		l.end(from, to)
	})
}

func (l *Link) end(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(l.conns, c)
	}
}

// Close ends all connections, and returns when no goroutine of l runs any more.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}
