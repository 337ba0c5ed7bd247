package lock

import (
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/renewal"
)

// renewConn is a connection of a renewer with the buffers of its requests.
//
// A batch is several script calls, so that none holds the server for long; in a
// Cluster a call takes only keys of one slot. They go out together and are
// answered together: still one round trip.
type renewConn struct {
	redis.Conn
	node  *node
	epoch uint32
	wait  wait

	// the request in progress
	order []int       // the leases, those of one call side by side
	slots []int       // by lease, in a Cluster
	calls []renewCall // of order
	args  []any       // of one call
	boxes boxes       // of one call
	text  []byte      // of one argument
	dummy byte        // see touch

	prefix any // of all fields of this client
}

// renewCall is one script call: the leases order[from:to].
type renewCall struct {
	from, to int
	asking   bool
	err      error
}

// round says how a batch is sent, after what was answered before.
type round struct {
	n      int
	asText bool // the server does not know the script
	single bool // a slot is on its way to another server: one call a lease
}

// callKeys bounds the keys of a call: so many hold the server for half a
// millisecond when it has a million locks.
const callKeys = 128

// errNotArrived: where its slot is just being moved to, the lock of a reader has
// arrived, but the key beside it that lives as long as the hold may not have.
const errNotArrived = redis.Error("TRYAGAIN the reader's timeout may be on its way")

// maxRounds bounds the sendings of one batch: by SHA, as text, one by one.
const maxRounds = 4

func newRenewConn(n *node, conn redis.Conn, epoch uint32) *renewConn {
	return &renewConn{Conn: conn, node: n, epoch: epoch, wait: wait{abort: func() { conn.Close() }}, prefix: n.c.id + ":"}
}

// renew sends what is not yet known of b and reads the answers. It returns true
// if some of it was not carried out and is to be sent in another way. An error
// that is no reply of Redis means that the connection is of no more use.
func (c *renewConn) renew(b *renewal.Batch, way *round, timeout time.Duration) (again bool, err error) {
	live, err := b.Send(func(live []int, by time.Time) error {
		if early := time.Until(by); early < timeout {
			t := time.AfterFunc(early, c.wait.abort)
			defer t.Stop()
		}
		c.touch(b, live)
		c.split(b, live, way.single)
		for i := range c.calls {
			if err := c.send(b, &c.calls[i], way.asText); err != nil {
				return err
			}
		}
		return c.Flush()
	})
	if err != nil || len(live) == 0 {
		return false, err
	}
	for i := range c.calls {
		call := &c.calls[i]
		if err := c.receive(b, call, timeout); err != nil {
			return false, err
		}
	}
	way.n++
	sentText := way.asText
	for i := range c.calls {
		switch call := &c.calls[i]; {
		case call.err == nil:
		case noScript(call.err) && !sentText:
			way.asText, again = true, true
		case c.refused(b, call):
			way.single, again = true, true
		default:
			if _, moved := redirectionOf(call.err, c.node.server); !moved {
				err = call.err
			}
		}
	}
	if again = again && way.n < maxRounds; again {
		err = nil // what is refused for good does not hold up what is not
	}
	return again, err
}

// touch reads what split and send will read, and nothing else: with many locks
// held none of it is in the cache, and here the processor waits for all of it at
// once instead of for one lock after the other.
func (c *renewConn) touch(b *renewal.Batch, live []int) {
	for _, i := range live {
		h := b.Owner(i).(*hold)
		c.dummy += h.name[0] + h.owner.text[0]
	}
}

// split orders the leases live into calls.
func (c *renewConn) split(b *renewal.Batch, live []int, single bool) {
	c.order, c.calls = append(c.order[:0], live...), c.calls[:0]
	slotted := c.node.fleet != nil && c.node.fleet.traits.Slots
	c.slots = slices.Grow(c.slots[:0], b.Len())[:b.Len()]
	kind := func(i int) int { // leases of one kind share a call
		k := c.slots[i]<<3 | int(b.Owner(i).(*hold).kind.renewalClass())<<1
		if b.Fixed(i) {
			k |= 1
		}
		return k
	}
	sorted := true
	for k, i := range live {
		c.slots[i] = 0
		if slotted {
			c.slots[i] = slotOf(b.Owner(i).(*hold).name)
		}
		sorted = sorted && (k == 0 || kind(live[k-1]) <= kind(i))
	}
	if !sorted {
		slices.SortFunc(c.order, func(i, j int) int { return kind(i) - kind(j) })
	}
	for k, i := range c.order {
		asking := slotted && b.Owner(i).(*hold).is(asked)
		if k > 0 && !single && !asking {
			last := &c.calls[len(c.calls)-1]
			if !last.asking && last.to-last.from < callKeys && kind(c.order[k-1]) == kind(i) {
				last.to++
				continue
			}
		}
		c.calls = append(c.calls, renewCall{from: k, to: k + 1, asking: asking})
	}
}

// send writes one call, by its SHA or as text.
func (c *renewConn) send(b *renewal.Batch, call *renewCall, asText bool) error {
	if call.asking {
		if err := c.Send("ASKING"); err != nil {
			return err
		}
	}
	leases := c.order[call.from:call.to]
	class, ttl := b.Owner(leases[0]).(*hold).kind.renewalClass(), b.TTL()
	if b.Fixed(leases[0]) {
		ttl = time.Millisecond // is it still there?
	}
	code := class.script()
	command, name := "EVALSHA", code.SHA()
	if asText {
		command, name = "EVAL", code.Text()
	}
	c.boxes.reset()
	c.args = append(c.args[:0], name, len(leases))
	for _, i := range leases {
		c.args = append(c.args, copied(&c.boxes, class.key(b.Owner(i).(*hold))))
	}
	c.args = append(c.args, class.lease(ttl), c.prefix)
	for _, i := range leases {
		c.text = b.Owner(i).(*hold).appendFieldTail(c.text[:0])
		c.args = append(c.args, copied(&c.boxes, c.text))
	}
	err := c.Send(command, c.args...)
	clear(c.args) // the connection may be idle for long, and these are names of locks
	return err
}

// receive reads the answer to one call. A reply that is an error is noted in
// call; the error that it returns is one of the connection.
func (c *renewConn) receive(b *renewal.Batch, call *renewCall, timeout time.Duration) error {
	reply, err := c.reply(timeout)
	if call.asking && err == nil { // that was the answer of ASKING
		reply, err = c.reply(timeout)
	}
	if _, answered := err.(redis.Error); answered {
		call.err = err
		return nil
	}
	if err != nil {
		return err
	}
	gone, err := redis.Ints(reply, nil)
	if err != nil {
		return fmt.Errorf("lock: renew: unexpected answer: %w", err)
	}
	leases := c.order[call.from:call.to]
	for _, k := range gone {
		if k < 1 || k > len(leases) {
			return fmt.Errorf("lock: renew: unexpected answer: index %d of %d", k, len(leases))
		}
	}
	if len(gone) > 0 && call.asking && b.Owner(leases[0]).(*hold).kind == readKind {
		call.err = errNotArrived
		return nil
	}
	for _, i := range leases {
		b.Renewed(i)
	}
	for _, k := range gone {
		b.Lost(leases[k-1])
	}
	return nil
}

func (c *renewConn) reply(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, max(timeout-time.Since(c.wait.began), time.Millisecond))
}

// refused does what follows from an answer that says that the keys are, or may
// be, elsewhere. Leases whose key is on another server go to the lane of that
// one, where they are due at once. It returns true if the server is to be asked
// for each lease by itself.
func (c *renewConn) refused(b *renewal.Batch, call *renewCall) bool {
	leases := c.order[call.from:call.to]
	to, moved := redirectionOf(call.err, c.node.server)
	switch {
	case isTryAgain(call.err), isApart(call.err), moved && to.ask && len(leases) > 1:
		return len(leases) > 1
	case !moved:
		return false
	}
	n := c.node.target(to)
	if n.lane == nil {
		return false
	}
	for _, i := range leases {
		h := b.Owner(i).(*hold)
		h.set(asked, to.ask)
		h.lease.Move(n.lane)
	}
	return false
}
