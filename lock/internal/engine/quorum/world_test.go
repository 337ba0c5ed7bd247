package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/renewal"
)

// The world of the exploration has three members, two clients, and time in ticks. A key lives for life
// ticks, and is trusted for as long. There is no margin, because a margin could hide a fault.

const (
	members = 3
	need    = 2
	clients = 2
	life    = 2
)

// config is what does not change in a world.
type config struct {
	durable  bool
	hosts    [members]int // the host of each member; two members may share one
	restarts int8         // how many restarts there may be
	deletes  int8
}

// world is one state. It is comparable.
type world struct {
	members  [members]member
	hosts    [members]host
	clients  [clients]client
	restarts int8 // how many restarts there were
	deletes  int8
}

// member is a member's key.
type member struct {
	owner int8 // client + 1; 0: the member is free
	left  int8 // until it expires
}

// host is a server.
type host struct {
	run int8 // how often it was restarted
	up  int8 // ticks since the last restart; life: at least life
}

type phase int8

const (
	idle phase = iota
	asking
	holding
	over // the client was told of the loss, or gave up
)

// client is a client, with its attempt or its hold.
type client struct {
	phase   phase
	ballots [members]ballot
	seats   [members]seat // of a hold
	ended   int8          // how many seats the client knows to be lost
	invalid bool          // too few seats were valid at some moment of the hold
}

type ballot struct {
	asked, took bool
	vote        quorum.Vote
	run         int8 // of the host when it voted
}

// seat is a member's place in a hold.
type seat struct {
	has, told bool
	left      int8 // of trust
	run       int8 // of the host when it voted
	retake    bool // it is being retaken
	why       renewal.Reason
	deleted   bool // somebody has deleted its key
}

func newWorld() (w world) {
	for i := range w.hosts {
		w.hosts[i].up = life
	}
	return w
}

// key is a world as bytes, to be compared.
type key [2 + members*4 + clients*(3+members*11)]int8

// canonical returns a key for w. All worlds have the same key that differ only in the numbers of the
// clients and, if each member has its own host, of the members. The key leaves out state without a future
// effect.
func (c *config) canonical(w *world) (least key) {
	orders := [][members]int{{0, 1, 2}}
	if c.hosts == [members]int{0, 1, 2} {
		orders = [][members]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	}
	for n, order := range orders {
		for swap := range int8(clients) {
			if k := c.key(w, order, swap); n == 0 && swap == 0 || slices.Compare(k[:], least[:]) < 0 {
				least = k
			}
		}
	}
	return least
}

// key returns the key of w with the members in this order, and with the clients swapped if swap is 1.
func (c *config) key(w *world, order [members]int, swap int8) (k key) {
	n := 0
	put := func(v int8) { k[n], n = v, n+1 }
	bit := func(v bool) {
		if v {
			put(1)
		} else {
			put(0)
		}
	}
	put(w.restarts)
	put(w.deletes)
	for _, i := range order {
		m, h := w.members[i], w.hosts[c.hosts[i]]
		if m.owner != 0 && swap == 1 {
			m.owner = clients + 1 - m.owner
		}
		put(m.owner)
		put(m.left)
		put(h.run)
		put(h.up)
	}
	for i := range int8(clients) {
		l := &w.clients[i^swap]
		put(int8(l.phase))
		put(l.ended)
		bit(l.invalid)
		for _, i := range order {
			b, s := l.ballots[i], l.seats[i]
			bit(b.asked)
			bit(b.took)
			put(int8(b.vote))
			put(b.run)
			bit(s.has)
			bit(s.told)
			put(s.left)
			put(s.run)
			bit(s.retake)
			put(int8(s.why))
			bit(s.deleted)
		}
	}
	return k
}

// part is a seat as package quorum sees it.
type part struct {
	valid, ended bool
	left         int8
}

var start = time.Unix(1_000_000, 0)

func (p part) Valid() bool         { return p.valid }
func (p part) Ended() bool         { return p.ended }
func (p part) Deadline() time.Time { return start.Add(time.Duration(p.left) * time.Second) }

// serverOf returns the run id of the host of a member.
func (c *config) serverOf(i int, run int8) string {
	return fmt.Sprintf("host %d run %d", c.hosts[i], run)
}

// grantsOf returns the seats of a client's hold as grants.
func (c *config) grantsOf(k *client) (seats []quorum.Grant[part]) {
	for i, s := range k.seats {
		if s.has {
			p := part{valid: s.left > 0 && !s.told, ended: s.told, left: s.left}
			seats = append(seats, quorum.Grant[part]{Hold: p, Member: i, Server: c.serverOf(i, s.run)})
		}
	}
	return seats
}

// valid reports whether a client has the lock now.
func (c *config) valid(k *client) bool {
	return k.phase == holding && quorum.CountValid(c.grantsOf(k), start) >= need
}

// step is what may happen between two answers of a member.
type step int8

const (
	nothing step = iota
	aTick
	aRestart // of the member's host
	steps
)

// fake is the quorum.Member of one action of a client.
type fake struct {
	c       *config
	w       *world
	client  int
	i       int
	between map[int]step // the steps that happen before the n-th answer
	answers int
}

var errHeld = errors.New("held by another")

// before does the steps that happen before the next answer.
func (f *fake) before() {
	s := f.between[f.answers]
	f.answers++
	switch s {
	case aTick:
		f.w.tick()
	case aRestart:
		f.c.restart(f.w, f.c.hosts[f.i])
	}
	f.c.noteInvalid(f.w)
}

// noteInvalid records which holds were not valid for a moment.
func (c *config) noteInvalid(w *world) {
	for i := range w.clients {
		if k := &w.clients[i]; k.phase == holding && !c.valid(k) {
			k.invalid = true
		}
	}
}

func (f *fake) Take(context.Context) (part, error) {
	f.before()
	m := &f.w.members[f.i]
	if m.owner != 0 && m.owner != int8(f.client)+1 {
		return part{}, errHeld
	}
	*m = member{owner: int8(f.client) + 1, left: life}
	f.w.clients[f.client].seats[f.i].left = life
	return part{valid: true, left: life}, nil
}

func (f *fake) MayVote(context.Context) (string, error) {
	f.before()
	h := f.w.hosts[f.c.hosts[f.i]]
	u := wire.UptimeAnswer{Up: time.Duration(h.up+1) * time.Second} // a second may be rounded
	return f.c.serverOf(f.i, h.run), quorum.MayVote(u, 0, life*time.Second)
}

func (f *fake) Failed(context.Context, error) quorum.Vote { return quorum.HeldByOther }

// tick lets one tick pass.
func (w *world) tick() {
	for i := range w.members {
		m := &w.members[i]
		if m.left > 0 {
			m.left--
		}
		if m.left == 0 {
			*m = member{}
		}
	}
	for i := range w.hosts {
		w.hosts[i].up = min(w.hosts[i].up+1, life)
	}
	for i := range w.clients {
		for k := range w.clients[i].seats {
			s := &w.clients[i].seats[k]
			s.left = max(s.left-1, 0)
		}
	}
}

// restart makes a host forget, unless it is durable.
func (c *config) restart(w *world, h int) {
	w.restarts++
	w.hosts[h] = host{run: w.hosts[h].run + 1}
	for i := range w.members {
		if c.hosts[i] == h && !c.durable {
			w.members[i] = member{}
		}
	}
}

// giveBack deletes a member's key if the client has it.
func (w *world) giveBack(client, i int) {
	if m := &w.members[i]; m.owner == int8(client)+1 {
		*m = member{}
	}
}
