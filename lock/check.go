package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/support/diagnosis"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
)

// Check tries every command, right and setting that the client needs, on every
// master that has its locks. It returns nil, or one error that lists all
// problems and what to do about each. Call Check when a program starts. It
// reports at once what would otherwise only show at the first release, renewal
// or wait.
//
// Check takes about 50 round trips to each server, one after the other. It asks
// all servers at the same time, over connections of its own. Config.IOTimeout
// limits each round trip. If a server leaves two requests in a row unanswered,
// Check does not ask it further. Check costs too much for a health check that
// runs every few seconds. Use Mutex.IsLocked of any name there, which takes one
// round trip.
//
// Check writes one string per server. Its key is Config.KeyPrefix,
// "wheellock_check:" and a UUID. The script that writes the string also removes
// it, so no string remains if ctx ends or a request fails. Only if the user has
// no right to DEL, the string remains for 10 s. Check publishes a message on the
// channels that belong to the key, to which no client listens at that time. So
// Check disturbs no lock. Many clients may call it at any time and at once.
//
// These are problems:
//
//   - A right or a command is missing that lock/SERVERS.md lists as needed. TIME
//     and pub/sub count as needed, although locks also work without them, only
//     worse.
//   - A server cannot take locks, because it is a replica or its memory is full.
//   - A server removes keys when its memory is full.
//   - A server is a node of a Cluster, and the client was made for one server.
//   - A server is a proxy that spreads keys over several servers.
//   - A server refuses keys that the call of a script does not name, so a RWMutex
//     cannot have readers. A program that uses no RWMutex can ignore this.
//
// Advice, and a question that Check could not answer, are not errors.
// Config.Logger gets them at level info, each at most once a minute per server.
//
// The error unwraps to the errors of the servers or their connections. It is
// ErrUnknown if a server could not be reached or did not answer, ErrClosed if
// the client is closed, and ctx.Err(), with the cause of ctx, if ctx ended first.
func (c *Client) Check(ctx context.Context) error {
	id := owner.UUID()
	if !c.table.Begin(id, true) {
		return closedError("Check")
	}
	defer c.table.End(id)
	ctx = wait.Sound(ctx)
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.holds.Context(), cancel)() // Close has given up waiting

	e := &checkError{}
	checks, err := c.checks(asking, c.key(checkPrefix+id))
	if err != nil {
		e.add("", diagnosis.Finding{
			Text: "no server is known for the locks: check that the addresses are right and the servers run",
			Errs: []error{&UnknownError{Op: "check", Name: id, Err: err}},
		})
	}
	cfg := diagnosis.Config{
		Traits: c.traits, IOTimeout: c.cfg.IOTimeout, Replicas: c.cfg.Replicas, ReplicaTimeout: c.cfg.ReplicaTimeout,
		Counter:       c.counters.Key,
		Tagged:        func(name string) string { return c.key(checkPrefix + "{" + name + "}") },
		Unknown:       func(name string, err error) error { return &UnknownError{Op: "check", Name: name, Err: err} },
		NotReplicated: ErrNotReplicated,
	}
	var wg sync.WaitGroup
	for _, ck := range checks {
		wg.Go(func() { ck.problems, ck.advice = diagnosis.Check(asking, &cfg, ck.server, ck.name) })
	}
	wg.Wait()
	for _, ck := range checks {
		label := "" // which of several servers it is
		if c.topology != nil {
			label = ck.server.Address()
		}
		for _, p := range ck.problems {
			e.add(label, p)
		}
		for _, a := range ck.advice {
			text := a.Text
			if err := errors.Join(a.Errs...); err != nil {
				text += " (" + onOneLine(err) + ")"
			}
			c.telling.logger.Log(record.CheckAdvice, ck.server.Address(), text)
		}
	}
	switch {
	case ctx.Err() != nil:
		e.ended = endsOf(ctx)
	case c.holds.Context().Err() != nil:
		e.ended = []error{ErrClosed}
	case len(e.problems) == 0:
		return nil
	}
	return e
}

// checkPrefix begins the names that Check uses. Config.KeyPrefix stands before it.
const checkPrefix = "wheellock_check:"

// check is the result for one server.
type check struct {
	server           *servers.Server
	name             string // of a lock on that server
	problems, advice []diagnosis.Finding
}

// checks returns the servers to be checked, each with the name of a lock on that server.
func (c *Client) checks(ctx context.Context, name string) ([]*check, error) {
	router := c.network.Router()
	if !c.traits.Slots {
		return []*check{{server: router.Server(name), name: name}}, nil
	}
	if err := router.AwaitServer(ctx); err != nil {
		return nil, err
	}
	var checks []*check
	seen := make(map[*servers.Server]bool)
	// A prefix with a hash tag puts all locks into one slot. Without one, this many names reach
	// every master that has more than a few slots.
	for i := range 1 << 16 {
		name := fmt.Sprintf("%s:%d", name, i)
		if s := router.Server(name); !seen[s] {
			seen[s] = true
			checks = append(checks, &check{server: s, name: name})
		}
	}
	slices.SortFunc(checks, func(a, b *check) int { return cmp.Compare(a.server.Name(), b.server.Name()) })
	return checks, nil
}

// checkError is the error of Check.
type checkError struct {
	problems []string
	errs     []error
	ended    []error // why the Check stopped before it had asked everything; empty if it did not
}

func (e *checkError) add(server string, p diagnosis.Finding) {
	if server != "" {
		p.Text = server + ": " + p.Text
	}
	if len(p.Errs) > 0 { // the other errors are like the first
		p.Text += fmt.Sprintf(" (%s)", strings.TrimPrefix(onOneLine(p.Errs[0]), "lock: "))
	}
	e.problems = append(e.problems, p.Text)
	e.errs = append(e.errs, p.Errs...)
}

func (e *checkError) Error() string {
	var b strings.Builder
	b.WriteString("lock: Check found ")
	switch n := len(e.problems); n {
	case 0:
		b.WriteString("no problem")
	case 1:
		b.WriteString("a problem")
	default:
		fmt.Fprintf(&b, "%d problems", n)
	}
	if len(e.ended) > 0 {
		fmt.Fprintf(&b, " before it ended: %s", saidOf(e.ended))
	}
	if len(e.problems) > 0 {
		b.WriteString(":")
	}
	for _, p := range e.problems {
		b.WriteString("\n  - " + p)
	}
	return b.String()
}

func (e *checkError) Unwrap() []error {
	return append(e.ended[:len(e.ended):len(e.ended)], e.errs...)
}
