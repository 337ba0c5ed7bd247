package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wheellock/wheellock/lock"
)

// hands is how many goroutines take and release what a crowd holds.
const hands = 32

// crowd is what a process holds all the time: many keys of its own, without a
// goroutine for each. What is lost is taken again.
type crowd struct {
	w *worker // immutable

	mu    sync.Mutex // guards what follows
	told  sync.Cond  // on mu: again has grown, or over
	fell  sync.Cond  // on mu: lost has grown, or over
	held  map[string]*mine
	lost  []loss  // not written down yet
	again []*mine // written down, to be released and taken again
	over  bool

	teller, hands sync.WaitGroup // goroutines of tell and of retake
}

// loss is what the Lost hook says, and when.
type loss struct {
	lock.Event
	at stamp
}

func newCrowd(w *worker) *crowd {
	c := &crowd{w: w, held: map[string]*mine{}}
	c.told.L, c.fell.L = &c.mu, &c.mu
	return c
}

// start takes all, and takes again what is lost until ctx ends.
func (c *crowd) start(ctx context.Context) {
	keys := make(chan string)
	var taking sync.WaitGroup
	for range hands {
		taking.Go(func() {
			for key := range keys {
				c.take(ctx, key)
			}
		})
	}
	for i := range c.w.Load.Many {
		keys <- fmt.Sprintf("many-%d-%d", c.w.Proc, i)
	}
	close(keys)
	taking.Wait()
	c.teller.Go(c.tell)
	for range hands {
		c.hands.Go(func() { c.retake(ctx) })
	}
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.over = true
		c.told.Broadcast()
		c.fell.Broadcast()
	})
}

// holds is how many it has; those that it has lost and not taken again do not count.
func (c *crowd) holds() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.held {
		if m.Err() == nil {
			n++
		}
	}
	return n
}

func (c *crowd) take(ctx context.Context, key string) {
	for ctx.Err() == nil {
		if m := c.w.take(ctx, key, mutex, true); m != nil {
			c.mu.Lock()
			c.held[key] = m
			c.mu.Unlock()
			if c.w.Flaw != None {
				c.w.held.Go(func() { c.hook(m) })
			}
			return
		}
	}
}

// onLost is the hook. It comes for every hold of the client.
func (c *crowd) onLost(e lock.Event) {
	at := c.w.rec.stamp()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = append(c.lost, loss{e, at})
	c.fell.Signal()
}

// hook is what a twin has none of.
func (c *crowd) hook(m *mine) {
	<-m.Done()
	if err := m.Err(); errors.Is(err, lock.ErrLost) {
		c.onLost(lock.Event{Name: m.key, Token: m.Token(), Err: err})
	}
}

// tell writes losses down. It does nothing else: the parent can check nothing that is
// later than a loss that it was not told of.
func (c *crowd) tell() {
	for {
		l, ok := next(c, &c.fell, &c.lost)
		if !ok {
			return
		}
		m := c.drop(l)
		if m == nil {
			c.w.rec.drop(l.at)
			continue
		}
		c.w.told(m, l.at, l.Err)
		c.mu.Lock()
		c.again = append(c.again, m)
		c.told.Signal()
		c.mu.Unlock()
	}
}

// next takes the first of a queue of c; ok is false at the end.
func next[T any](c *crowd, grown *sync.Cond, queue *[]T) (first T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(*queue) == 0 && !c.over {
		grown.Wait()
	}
	if len(*queue) == 0 {
		return first, false
	}
	first, *queue = (*queue)[0], (*queue)[1:]
	return first, true
}

// retake is the body of a hand.
func (c *crowd) retake(ctx context.Context) {
	for {
		m, ok := next(c, &c.told, &c.again)
		if !ok {
			return
		}
		c.w.release(m)
		c.take(ctx, m.key)
	}
}

// drop takes the hold that was lost out of the crowd; nil if it is none of it.
func (c *crowd) drop(l loss) *mine {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.held[l.Name]
	if m == nil || m.Token() != l.Token {
		return nil
	}
	delete(c.held, l.Name)
	return m
}

// end releases all, after the end of ctx.
func (c *crowd) end() {
	c.teller.Wait()
	c.hands.Wait()
	for _, m := range c.again { // it was told as the hands had ended
		c.w.release(m)
	}
	c.mu.Lock()
	rest := make(chan *mine, len(c.held))
	for _, m := range c.held {
		rest <- m
	}
	c.mu.Unlock()
	close(rest)
	var releasing sync.WaitGroup
	for range hands {
		releasing.Go(func() {
			for m := range rest {
				c.w.release(m)
			}
		})
	}
	releasing.Wait()
}
