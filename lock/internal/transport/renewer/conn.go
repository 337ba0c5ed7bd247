package renewer

import (
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// pipeline is a connection of a Renewer with the buffers of its requests.
//
// A batch is several script calls, so that none occupies the server for long. In a
// Cluster a call takes only keys of one slot. The calls are sent together and
// answered together, so a batch still takes one round trip.
type pipeline struct {
	redis.Conn
	exchange     *pipe.Exchange // over Conn
	renewer      *Renewer
	wait         wait
	callsResumed bool // the first answer on it makes the Renewer call Resumed
	isDemoted    bool // the server has become a replica, or seems to, so the connection is of no more use

	// the request in progress
	owners   []Owner         // by lease
	isSent   []bool          // by lease: it was sent in this turn or in an earlier one, see runTurn
	order    []int           // the leases; the leases of one call are next to each other
	kinds    []int           // by lease: leases of one kind share a call
	calls    []renewCall     // of order
	requests []*pipe.Request // of calls, and more whose memory is used again
	text     []byte          // of one argument
	dummy    byte            // a sum that makes the compiler keep the reads of touch
}

// renewCall is one script call: the leases order[from:to].
type renewCall struct {
	from, to int
	weight   int // of all its leases together
	asking   bool
	err      error
}

// sendMode says how to send a batch after the answers so far.
type sendMode struct {
	sendings     int
	asText       bool // the server does not know the script
	lateSendings int  // how many sendings had a call that came after its limit, because the server's clock had changed
	oneByOne     bool // a slot is moving to another server, so each lease has its own call

	refused error // the last error with which Redis refused a call for good
}

// callWeight is the most weight that the leases of a call have together. A key has weight
// 1, and a hold of permits has the number of its permits. A call of this weight occupies a
// server with a million locks for half a millisecond. A hold is never split, so a heavier
// hold has a call of its own.
const callWeight = 128

// turnWeight is the most weight of a batch that is sent before answers are read. The
// server runs all calls that it finds in a connection before it serves others, so a batch
// of many permits is sent in several turns. A batch of locks is never so large.
const turnWeight = 4096

// errNotArrived is returned while a slot moves. The lock of a reader has arrived at the
// new server, but the reader's second key, which lives as long as the hold, may not have.
const errNotArrived = redis.Error("TRYAGAIN the reader's timeout may be on its way")

// maxRounds is the most sendings of one batch: by SHA, as text, one by one, and with
// other limits.
const maxRounds = 4 + pipe.MaxLates

func newPipeline(r *Renewer, dialed pipe.Connection) *pipeline {
	return &pipeline{
		Conn: dialed.Conn, exchange: pipe.NewExchange(&r.wire, dialed), renewer: r,
		wait: wait{abort: func() { dialed.Conn.Close() }},
	}
}

// renew sends the leases of b that have no answer yet and reads the answers. It returns
// true if some calls were not carried out and must be sent in another way. An error
// that is no reply of Redis means that the connection is not usable.
func (c *pipeline) renew(b *renewal.Batch, way *sendMode) (again bool, err error) {
	defer func() { clear(c.owners) }() // the connection may be idle for long
	c.isSent = slices.Grow(c.isSent[:0], b.Len())[:b.Len()]
	clear(c.isSent)
	for more := true; more; {
		var refused error
		var repeat bool
		more, repeat, refused, err = c.runTurn(b, way)
		if err != nil {
			return false, err
		}
		again = again || repeat
		if refused != nil {
			way.refused = refused
		}
		if more && !c.renewer.continueWait(&c.wait) {
			return false, errSuperseded
		}
	}
	way.sendings++
	if again = again && way.sendings < maxRounds; again {
		way.refused = nil // a call that is refused for good does not delay the others
	}
	return again, way.refused
}

// runTurn sends a part of b, which is called a turn, and reads the answers. more says that there is
// another part. again means the same as for renew. refused is the error with which Redis refused
// a call. err means that the connection is not usable.
func (c *pipeline) runTurn(b *renewal.Batch, way *sendMode) (more, again bool, refused, err error) {
	live, err := b.Send(func(live []int, by time.Time) error {
		if early := time.Until(by); early < c.renewer.cfg.Timeout {
			t := time.AfterFunc(early, c.wait.abort)
			defer t.Stop()
		}
		c.touch(b, live)
		if more = c.split(b, live, way.oneByOne); len(c.calls) == 0 {
			return nil // the leases of this turn have ended
		}
		for i := range c.calls {
			c.encode(b, i, way.asText)
		}
		return c.exchange.Write(c.requests[:len(c.calls)])
	})
	if err != nil || len(live) == 0 {
		return false, false, nil, err
	}
	for i := range c.calls {
		call := &c.calls[i]
		if err := c.receive(b, call); err != nil {
			return false, false, nil, err
		}
	}
	sentText, clockChanged := way.asText, false
	for i := range c.calls {
		call := &c.calls[i]
		several := call.to-call.from > 1
		switch verdict, to := pipe.VerdictOf(call.err, sentText, c.renewer.cfg.Server); {
		case call.err == nil:
		case verdict == pipe.Demoted, !c.renewer.cfg.Slots && c.isConnUseless(call.err, b.TTL()):
			c.isDemoted = true // the connection is not usable, whatever the other answers are
			return false, false, nil, call.err
		case verdict == pipe.AsText:
			way.asText, again = true, true
		case verdict == pipe.Late:
			clockChanged = c.exchange.NoteLate(c.requests[i], call.err) || clockChanged
			again = true
		case verdict == pipe.Elsewhere && !c.renewer.cfg.Slots: // without slots ASK is like any other error
			refused = call.err
		case several && (verdict == pipe.Parted || verdict == pipe.Elsewhere && to.Ask):
			way.oneByOne, again = true, true
		case verdict == pipe.Elsewhere:
			c.moveLeases(call, to)
		default:
			refused = call.err
		}
	}
	if clockChanged {
		if way.lateSendings++; way.lateSendings == pipe.MaxLates {
			c.exchange.Distrust()
		}
	}
	return more, again, refused, nil
}

// isConnUseless reports whether a call that ended with err shows that the connection is of no more use, where
// keys have no slots. The server is a replica, or loads its data. Two kinds of server load: a master that has
// restarted, and a master that has become a replica. The second one keeps its connections, and refuses all
// scripts with LOADING. A connection that was made not long ago is kept, so that a master that loads is
// not dialled for each batch.
func (c *pipeline) isConnUseless(err error, ttl time.Duration) bool {
	return pipe.OfReplica(err) || pipe.Code(err) == "LOADING" && c.exchange.Age() > ttl/8
}

// touch reads the memory that split and encode will read. With many locks that memory
// is not in the processor's cache. touch loads it for all locks at once, so the
// processor does not wait for one lock after the other.
func (c *pipeline) touch(b *renewal.Batch, live []int) {
	c.owners = slices.Grow(c.owners[:0], b.Len())[:b.Len()]
	for _, i := range live {
		c.owners[i] = b.Owner(i).(Owner)
		c.dummy += c.owners[i].Touch()
	}
}

// split makes the calls of the next part of a batch, from the leases live that were not sent yet.
// oneByOne gives each lease a call of its own. more says that leases are left for another part.
func (c *pipeline) split(b *renewal.Batch, live []int, oneByOne bool) (more bool) {
	c.order, c.calls = c.order[:0], c.calls[:0]
	for _, i := range live {
		if !c.isSent[i] {
			c.order = append(c.order, i)
		}
	}
	slotted := c.renewer.cfg.Slots
	c.kinds = slices.Grow(c.kinds[:0], b.Len())[:b.Len()]
	sorted, last := true, 0
	for _, i := range c.order {
		kind := int(c.owners[i].Class()) << 1
		if b.Fixed(i) {
			kind |= 1
		}
		if slotted {
			kind |= keys.Slot(c.owners[i].Name()) << 3
		}
		c.kinds[i] = kind
		sorted = sorted && last <= kind
		last = kind
	}
	if !sorted {
		slices.SortFunc(c.order, func(i, j int) int { return c.kinds[i] - c.kinds[j] })
	}
	sum := 0
	for k, i := range c.order {
		asking, weight := slotted && c.owners[i].NeedsAsking(), c.owners[i].Weight()
		if sum += weight; k > 0 && sum > turnWeight {
			return true
		}
		c.isSent[i] = true
		if k > 0 && !oneByOne && !asking {
			last := &c.calls[len(c.calls)-1]
			if !last.asking && last.weight+weight <= callWeight && c.kinds[c.order[k-1]] == c.kinds[i] {
				last.to++
				last.weight += weight
				continue
			}
		}
		c.calls = append(c.calls, renewCall{from: k, to: k + 1, weight: weight, asking: asking})
	}
	return false
}

// encode makes the request of a call, with the script's SHA or its text.
func (c *pipeline) encode(b *renewal.Batch, nth int, asText bool) {
	call := &c.calls[nth]
	leases := c.order[call.from:call.to]
	class, ttl := c.owners[leases[0]].Class(), b.TTL()
	if b.Fixed(leases[0]) {
		ttl = time.Millisecond // the shortest lease, only to see whether the key still exists
	}
	if nth == len(c.requests) {
		c.requests = append(c.requests, new(pipe.Request))
	}
	args := c.requests[nth].Emptied()
	for _, i := range leases {
		args = args.AddString(c.owners[i].Key())
	}
	args = class.appendLease(args, ttl, c.renewer.cfg.Prefix)
	for _, i := range leases {
		c.text = c.owners[i].AppendFieldTail(c.text[:0])
		args = args.AddBytes(c.text)
	}
	c.requests[nth].Set(class.script(), asText, call.asking, len(leases), args)
}

// receive reads the answer to one call. An error reply is recorded in call. The
// returned error is an error of the connection.
func (c *pipeline) receive(b *renewal.Batch, call *renewCall) error {
	_, reply, refusal, err := c.exchange.Next() // checkWait ends a wait that is too long
	if err != nil || refusal != nil {
		call.err = refusal
		return err
	}
	leases := c.order[call.from:call.to]
	gone, refused, err := readRenewAnswer(reply.Any(), len(leases))
	if err != nil {
		return fmt.Errorf("renewer: renew: unexpected answer: %w", err)
	}
	if len(gone) > 0 && call.asking {
		switch o := c.owners[leases[0]]; {
		case o.MoveIfAbsent(): // it stays unknown, and is sent to the other lane
			return nil
		case o.Class() == Readers:
			call.err = errNotArrived
			return nil
		}
	}
	for k, i := range leases {
		if refused[k+1] == nil { // refused leases stay unknown
			b.Renewed(i)
			if c.renewer.cfg.Slots {
				c.owners[i].Found()
			}
		} else {
			call.err = refused[k+1]
		}
	}
	for _, k := range gone {
		b.Lost(leases[k-1])
	}
	return nil
}

// readRenewAnswer reads the answer for n leases. It returns the indexes of the leases that are
// gone, and the errors of the leases that were refused, by index.
func readRenewAnswer(reply any, n int) (gone []int, refused map[int]error, err error) {
	values, err := redis.Values(reply, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range values {
		pair, refusal := v.([]any)
		if refusal && len(pair) == 2 {
			v = pair[0]
		}
		k, ok := v.(int64)
		if !ok || k < 1 || k > int64(n) {
			return nil, nil, fmt.Errorf("%v of %d", v, n)
		}
		if !refusal {
			gone = append(gone, int(k))
			continue
		}
		text, ok := pair[1].([]byte)
		if !ok {
			return nil, nil, fmt.Errorf("%v of %d", pair, n)
		}
		if refused == nil {
			refused = make(map[int]error)
		}
		refused[int(k)] = redis.Error(text)
	}
	return gone, refused, nil
}

// moveLeases moves the leases of a call to the lane of the server that has their keys.
// They are due there at once.
func (c *pipeline) moveLeases(call *renewCall, to pipe.Redirection) {
	lane := c.renewer.cfg.Target(to)
	if lane == nil {
		return
	}
	for _, i := range c.order[call.from:call.to] {
		c.owners[i].MoveTo(lane, to.Ask)
	}
}
