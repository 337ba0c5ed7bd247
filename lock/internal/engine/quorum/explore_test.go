package quorum_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/renewal"
)

// successor is a world that one action makes of another world.
type successor struct {
	what  string
	world world
	fault string // a broken promise, in the world or in the action; or empty
}

// successors returns the worlds that all possible actions make of w.
func (c *config) successors(w world) (all []successor) {
	add := func(w world, fault, what string, args ...any) {
		all = append(all, successor{fmt.Sprintf(what, args...), w, fault})
	}
	x := w
	x.tick()
	add(x, "", "a tick")
	for h := range w.hosts {
		if w.restarts < c.restarts {
			x := w
			c.restart(&x, h)
			add(x, "", "host %d restarts", h)
		}
	}
	for i, m := range w.members {
		if m.owner != 0 && w.deletes < c.deletes {
			x := w
			x.deletes++
			x.members[i] = member{}
			if s := &x.clients[m.owner-1].seats[i]; s.has && s.left > 0 && !s.told {
				s.deleted = true
			}
			add(x, "", "the key of member %d is deleted", i)
		}
	}
	for k := range w.clients {
		c.actions(w, k, add)
	}
	for i := range all {
		c.findFault(&all[i])
	}
	return all
}

// findFault looks for broken promises. It also notes which holds were invalid for a moment.
func (c *config) findFault(n *successor) {
	w, have := &n.world, 0
	for i := range w.clients {
		k := &w.clients[i]
		valid := c.valid(k)
		if valid {
			have++
		}
		if valid && k.invalid {
			n.fault = "a hold is valid again"
		}
		for _, s := range c.grantsOf(k) {
			for _, o := range c.grantsOf(k) {
				if k.phase == holding && s.Member != o.Member && s.Server == o.Server && s.Hold.Valid() && o.Hold.Valid() {
					n.fault = "a server has two votes in one hold"
				}
			}
		}
	}
	c.noteInvalid(w)
	if have > 1 && w.deletes == 0 {
		n.fault = "two have the lock"
	}
}

// interruptions returns the events that may happen before one of the answers of a member.
func (c *config) interruptions(w world, answers int) (all []map[int]step) {
	all = append(all, nil)
	for at := range answers {
		for s := nothing + 1; s < steps; s++ {
			if s != aRestart || w.restarts < c.restarts {
				all = append(all, map[int]step{at: s})
			}
		}
	}
	return all
}

// actions adds a successor for everything that client n may do.
func (c *config) actions(w world, n int, add func(w world, fault, what string, args ...any)) {
	k := w.clients[n]
	switch k.phase {
	case idle:
		x := w
		x.clients[n] = client{phase: asking}
		add(x, "", "client %d begins", n)
	case asking:
		all := true
		for i, b := range k.ballots {
			if b.asked {
				continue
			}
			all = false
			for _, between := range c.interruptions(w, 2) {
				x := w
				f := &fake{c: c, w: &x, client: n, i: i, between: between}
				b := quorum.Ask(context.Background(), i, f, c.durable)
				mine := &x.clients[n]
				mine.ballots[i] = ballot{asked: true, took: b.WasTaken, vote: b.Vote}
				if b.Vote == quorum.Yes {
					mine.ballots[i].run = x.hosts[c.hosts[i]].run
				}
				mine.seats[i].has = b.WasTaken
				add(x, "", "client %d asks member %d, between %v: %d", n, i, between, b.Vote)
			}
		}
		if all {
			add(c.conclude(w, n), "", "client %d counts", n)
		}
	case holding:
		c.hold(w, n, add)
	case over:
		x := w
		x.clients[n] = client{}
		add(x, "", "client %d is ready again", n)
	}
}

// conclude counts the ballots of an attempt.
func (c *config) conclude(w world, n int) world {
	k := &w.clients[n]
	y := quorum.NewTally[part](members)
	for i, b := range k.ballots {
		v := quorum.Ballot[part]{Member: i, Vote: b.vote, WasTaken: b.took}
		if !c.durable {
			v.Server = c.serverOf(i, b.run)
		}
		y.Add(v)
	}
	hold := client{phase: holding}
	for _, b := range y.Ballots {
		if b.Vote == quorum.Yes {
			hold.seats[b.Member] = seat{has: true, left: k.seats[b.Member].left, run: k.ballots[b.Member].run}
		} else if b.WasTaken {
			w.giveBack(n, b.Member)
		}
	}
	if y.Count(quorum.Yes) < need || !c.valid(&hold) {
		for i := range members {
			w.giveBack(n, i)
		}
		hold = client{phase: over}
	}
	w.clients[n] = hold
	return w
}

// hold adds the actions of a client whose hold it does not know to be lost.
func (c *config) hold(w world, n int, add func(w world, fault, what string, args ...any)) {
	k := w.clients[n]
	x := w
	for i := range members {
		x.giveBack(n, i)
	}
	x.clients[n] = client{phase: over}
	add(x, "", "client %d unlocks", n)
	for i, s := range k.seats {
		switch {
		case !s.has:
		case !s.told && s.left > 0: // a renewal
			x := w
			if m := &x.members[i]; m.owner == int8(n)+1 {
				m.left, x.clients[n].seats[i].left = life, life
				add(x, "", "client %d renews member %d", n, i)
			} else {
				fault := c.tell(&x, n, i, renewal.NotOwner)
				add(x, fault, "client %d is told that member %d is gone", n, i)
			}
		case !s.told: // its trust has ended; the clock or a late answer tells the client
			for _, why := range []renewal.Reason{renewal.TrustEnded, renewal.NotOwner} {
				x := w
				fault := c.tell(&x, n, i, why)
				add(x, fault, "client %d is told of member %d: %v", n, i, why)
			}
		case s.retake && c.valid(&k):
			for _, between := range c.interruptions(w, 3) {
				x := w
				fault := c.retake(&x, n, i, between)
				add(x, fault, "client %d retakes member %d, between %v", n, i, between)
			}
		}
	}
}

// tell is what package lock does when a part of a hold has ended.
func (c *config) tell(w *world, n, i int, why renewal.Reason) (fault string) {
	k := &w.clients[n]
	s := &k.seats[i]
	expired := s.left == 0
	s.told, s.why, s.left = true, why, 0
	k.ended++
	if len(c.grantsOf(k))-int(k.ended) < need {
		w.clients[n] = client{phase: over}
		return ""
	}
	how, may := quorum.MayRetake(why, expired, c.runIDOfVote(i, s.run), c.durable)
	s.retake, s.why = may, how.Why
	if expired && !may {
		return "a member whose trust was over is given up"
	}
	if may && !expired && c.durable && why == renewal.NotOwner {
		return "a durable member that was deleted is retaken"
	}
	return ""
}

// runIDOfVote returns the run id in a vote.
func (c *config) runIDOfVote(i int, run int8) string {
	if c.durable {
		return ""
	}
	return c.serverOf(i, run)
}

// retake is what package lock does once per interval of renewal.
func (c *config) retake(w *world, n, i int, between map[int]step) (fault string) {
	lost := w.clients[n].seats[i]
	f := &fake{c: c, w: w, client: n, i: i, between: between}
	how := quorum.Retake{Why: lost.why, Server: c.runIDOfVote(i, lost.run), Durable: c.durable}
	k := &w.clients[n]
	left, again := quorum.AskAgain(context.Background(), how, i, f, func(b quorum.Ballot[part]) bool {
		trust := k.seats[i].left
		k.seats[i].left = 0
		if !quorum.MayAdmit(c.grantsOf(k), need, int(k.ended), b.Server, start) {
			return false
		}
		k.seats[i] = seat{has: true, left: trust, run: w.hosts[c.hosts[i]].run}
		k.ended--
		if lost.deleted && lost.why == renewal.NotOwner && lost.run == k.seats[i].run {
			fault = "a member whose key was deleted is taken again"
		}
		return true
	})
	if k.seats[i].told {
		k.seats[i].left, k.seats[i].retake = 0, again
	}
	if left.WasTaken {
		w.giveBack(n, i)
	}
	return fault
}

// explore visits every reachable world. At a fault it fails, and prints the actions that lead to it.
func (c *config) explore(t *testing.T) (worlds int) {
	type way struct {
		from  int // in ways
		what  string
		world world
	}
	ways := []way{{world: newWorld()}}
	known := map[key]bool{c.canonical(&ways[0].world): true}
	for at := 0; at < len(ways); at++ {
		for _, n := range c.successors(ways[at].world) {
			if n.fault != "" {
				text := n.what + "\n"
				for ; at > 0; at = ways[at].from {
					text = ways[at].what + "\n" + text
				}
				require.Fail(t, n.fault, "after\n%s", text)
			}
			if k := c.canonical(&n.world); !known[k] {
				known[k] = true
				ways = append(ways, way{at, n.what, n.world})
			}
		}
	}
	return len(ways)
}

// TestNoTwoHaveTheLockInAnyOrder visits all orders of requests, losses, restarts, deletions and retakes,
// until there is no new world.
func TestNoTwoHaveTheLockInAnyOrder(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("slow, and other tests make the same calls")
	}
	own, shared := [members]int{0, 1, 2}, [members]int{0, 0, 1}
	for name, c := range map[string]config{
		"a restart":        {hosts: own, restarts: 1},
		"two restarts":     {hosts: own, restarts: 2},
		"durable":          {hosts: own, durable: true, restarts: 1},
		"deleted":          {hosts: own, deletes: 1},
		"both":             {hosts: own, restarts: 1, deletes: 1},
		"durable, deleted": {hosts: own, durable: true, deletes: 1},
		"a shared server":  {hosts: shared, restarts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.restarts+c.deletes > 1 && os.Getenv("WHEELLOCK_STATES") != "all" {
				t.Skip("WHEELLOCK_STATES=all, for it takes long; the simulation restarts servers too")
			}
			if c.restarts > 0 && os.Getenv("WHEELLOCK_STATES") == "" {
				t.Skip("WHEELLOCK_STATES=some, for it takes seconds")
			}
			if testing.Short() && !c.durable {
				t.Skip("it takes ten seconds")
			}
			t.Logf("%d states", c.explore(t))
		})
	}
}
