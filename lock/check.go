package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wheellock/wheellock/lock/internal/diagnosis"
	"github.com/wheellock/wheellock/lock/internal/servers"
)

// Check tries every command, right and setting that the client needs, on every
// master that has its locks. It returns one error that lists everything that is
// missing, each with what to do, or nil. Call it when a program starts: it
// reports at once what would otherwise show when a lock is first released,
// renewed or waited for.
//
// Check takes about 45 round trips to each server, one after the other. It asks
// all servers at the same time, over connections of its own. Config.IOTimeout
// limits each round trip. A server that does not answer two in a row is not
// asked further. Check is too much for a health check that runs every few
// seconds: use Mutex.IsLocked of any name there, which is one round trip.
//
// Check writes one string per server, under Config.KeyPrefix,
// "wheellock_check:" and a UUID. The script that writes the string also removes
// it, so nothing remains if ctx ends or something else fails in the middle. It
// remains, for 10 s, only if the user has no right to DEL. Check publishes a
// message on the channels that belong to that name, where only the Check
// listens. So it may be called at any time, by many clients at once, and
// disturbs no lock.
//
// A problem is a right or a command that README.md lists as needed, or a server
// that cannot take locks (a replica, a full memory), removes keys when its
// memory is full, is a node of a Cluster unknown to the client, or is a proxy
// that spreads keys. TIME and pub/sub count as needed, although locks also work
// without them, only worse. What is only advisable, and what could not be found
// out, is not an error: Config.Logger gets it at level info, once per call and
// server.
//
// The error unwraps to what the servers, or their connections, said. It is
// ErrUnknown if some server was not reached or did not answer, ErrClosed if the
// client is closed, and the error of ctx, with its cause, if ctx ended first.
func (c *Client) Check(ctx context.Context) error {
	id := newUUID()
	if !c.table.Begin(id, true) {
		return closedError("Check")
	}
	defer c.table.End(id)
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
			said := ""
			if err := errors.Join(a.Errs...); err != nil {
				said = onOneLine(err)
			}
			c.cfg.Logger.Info("lock: Check has advice", "server", ck.server.Address(), "advice", a.Text, "error", said)
		}
	}
	switch {
	case ctx.Err() != nil:
		e.ended = []error{ctx.Err()}
		if cause := context.Cause(ctx); cause != ctx.Err() {
			e.ended = append(e.ended, cause)
		}
	case c.holds.Context().Err() != nil:
		e.ended = []error{ErrClosed}
	case len(e.problems) == 0:
		return nil
	}
	return e
}

// checkPrefix is what the names that Check uses begin with, behind Config.KeyPrefix.
const checkPrefix = "wheellock_check:"

// check is what is found on one server.
type check struct {
	server           *servers.Server
	name             string // of a lock that it has
	problems, advice []diagnosis.Finding
}

// checks are the servers to be checked, each with the name of a lock that it has.
func (c *Client) checks(ctx context.Context, name string) ([]*check, error) {
	router := c.network.Router()
	if !c.traits.Slots {
		return []*check{{server: router.Server(name), name: name}}, nil
	}
	if err := router.Known(ctx); err != nil {
		return nil, err
	}
	var checks []*check
	seen := make(map[*servers.Server]bool)
	// A prefix with a hash tag puts all locks into one slot. Otherwise so many names reach
	// each master that has more than a few slots.
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

// checkError is what Check found.
type checkError struct {
	problems []string
	errs     []error
	ended    []error // why the Check has not asked everything; empty if it has
}

func (e *checkError) add(server string, p diagnosis.Finding) {
	if server != "" {
		p.Text = server + ": " + p.Text
	}
	if len(p.Errs) > 0 { // the others are like the first
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
