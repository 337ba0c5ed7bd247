package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock"
)

const (
	// closeTimeout is how long the client may go on releasing what it may have taken.
	closeTimeout = time.Second
	// groupPoll is how often it is looked whether the rest of a command has ended.
	groupPoll = 20 * time.Millisecond
)

// run is the subcommand.
func (p *program) run(args []string) (int, error) {
	o, err := p.parseRun(args)
	if err != nil {
		return 0, err
	}
	path, err := find(o.command[0])
	if err != nil {
		return 0, err
	}
	log := &notices{say: p.say, terse: true}
	client, err := o.servers.open(lock.Config{Lease: o.lease, Logger: log.logger()})
	if err != nil {
		return 0, err
	}
	defer closeClient(client)
	signals := make(chan os.Signal, 16)
	defer signal.Stop(signals)
	listen(signals, ending)
	outlivePipes()

	held, err := p.acquire(client, o, log, signals)
	if err != nil {
		if o.quiet && statusOf(err) == statusNotAcquired {
			return statusNotAcquired, nil
		}
		return 0, err
	}
	log.open()
	env := childEnv(p.env, client, o.name, held)
	listen(signals, passed)
	c, err := startChild(path, o.command, env, p.stdio)
	if err != nil {
		_ = p.release(held)
		return 0, notStarted(o.command[0], path, err)
	}
	g := &guard{p: p, name: o.name, held: held, child: c, ender: newEnder(o.lease, o.grace), period: min(o.lease/20, time.Second)}
	status := g.watch(signals)
	if err := p.release(held); g.ender.told() {
		status = statusLost
	} else if err != nil && errors.Is(err, lock.ErrLost) {
		p.say("%s: the lock was lost while the command ran, so another may have run at the same time; its own status was %d", o.name, status)
		status = statusLost
	} else if err != nil {
		p.say("%s: the command has ended, but the lock was not released: it is free in %v at most: %s", o.name, o.lease, plain(err))
	}
	c.close()
	return status, nil
}

func closeClient(c *lock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = c.Close(ctx)
}

// release gives the lock back. It takes Config.UnlockTimeout at most.
func (p *program) release(held *lock.Held) error { return held.Unlock(context.Background()) }

// acquire takes the lock, and waits for it as long as o says. A signal that ends
// processes ends the wait.
func (p *program) acquire(client *lock.Client, o runOptions, log *notices, signals <-chan os.Signal) (*lock.Held, error) {
	type result struct {
		held *lock.Held
		err  error
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := make(chan result, 1)
	go func() {
		held, err := take(ctx, client.Mutex(o.name), o, log)
		got <- result{held, p.notTaken(o, err)}
	}()
	var stop os.Signal
	for {
		select {
		case s := <-signals:
			if stop == nil {
				stop = s
			}
			cancel()
		case r := <-got:
			if stop != nil {
				if r.err == nil {
					_ = p.release(r.held) // or it is free when its lease ends
				}
				return nil, &statusError{statusSignal + number(stop), fmt.Sprintf("%s: %v came before the command was started: it was not run", o.name, stop)}
			}
			return r.held, r.err
		}
	}
}

// take takes the lock. It tries once first, so that the wait bounds the waiting for
// another holder and not the time that a connection takes.
func take(ctx context.Context, m *lock.Mutex, o runOptions, log *notices) (*lock.Held, error) {
	held, err := m.TryLock(ctx)
	if err == nil || o.wait == 0 || ctx.Err() != nil || !errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrUnknown) {
		return held, err
	}
	log.open()
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.wait)
		defer cancel()
	}
	held, waitErr := m.Lock(ctx)
	cutShort := errors.Is(waitErr, context.DeadlineExceeded) && !errors.Is(waitErr, lock.ErrUnknown) && !errors.Is(waitErr, lock.ErrNotAcquired)
	if cutShort {
		return nil, err // the first try was answered
	}
	return held, waitErr
}

// notTaken says what became of the acquisition, and what to do.
func (p *program) notTaken(o runOptions, err error) error {
	if err == nil || statusOf(err) == statusUsage {
		return err
	}
	if statusOf(err) != statusNotAcquired {
		return &statusError{statusOf(err), fmt.Sprintf("%s: the command was not run: %s", o.name, plain(err))}
	}
	text := "another has the lock"
	if o.wait > 0 {
		text = fmt.Sprintf("after %v another still has the lock", o.wait)
	}
	var other *lock.HeldError
	if errors.As(err, &other) {
		if other.Foreign {
			text += " through another library"
		}
		if ttl := other.TTL.Round(100 * time.Millisecond); ttl > 0 {
			text += fmt.Sprintf(", whose lease has %v left", ttl)
		}
	}
	within, _ := p.lookupEnv("WHEELLOCK_NAME")
	switch {
	case within == o.name:
		text += ": this is called by a command that was started under it"
	case o.wait == 0:
		text += ": -wait waits for it"
	}
	return &statusError{statusNotAcquired, fmt.Sprintf("%s: the command was not run: %s: \"wheellock inspect %s\" says who has it", o.name, text, o.name)}
}

// childEnv is the environment of the command.
func childEnv(env []string, client *lock.Client, name string, held *lock.Held) []string {
	own := []string{
		"WHEELLOCK_NAME=" + name,
		"WHEELLOCK_TOKEN=" + strconv.FormatInt(held.Token(), 10),
		"WHEELLOCK_HOLDER=" + client.ID(),
	}
	var out []string
	for _, entry := range env {
		key, _, _ := strings.Cut(entry, "=")
		if key != "WHEELLOCK_NAME" && key != "WHEELLOCK_TOKEN" && key != "WHEELLOCK_HOLDER" {
			out = append(out, entry)
		}
	}
	return append(out, own...)
}

// guard is a command that runs under a lock.
type guard struct {
	p      *program
	name   string
	held   *lock.Held
	child  *child
	ender  *ender
	period time.Duration // trust is looked at so often, because clocks can be set
	barred bool          // it was said that the command may not be ended
}

// watch returns the status of the command when it has ended: when it was told to end,
// with all that it started.
func (g *guard) watch(signals <-chan os.Signal) (status int) {
	done := g.held.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended, stopped := false, false
	for {
		again := g.step()
		if ended && (!g.ender.told() || g.ender.killed || !g.child.alive()) {
			if g.ender.told() {
				g.mayNotEnd()
			}
			return status
		}
		if stopped {
			// Only now: if the lock was lost meanwhile, it has been told to end.
			stopped = false
			g.child.pass(resumed)
		}
		if ended {
			again = min(again, groupPoll)
		}
		timer.Reset(min(again, g.period))
		select {
		case <-timer.C:
		case <-done:
			done = nil
		case s := <-signals:
			g.step()
			if g.child.barred() {
				g.p.say("%s: %v was not passed on: the command runs as another user", g.name, s)
			}
			g.child.pass(s)
		case e := <-g.child.events:
			if e.ended {
				ended, status = true, e.status
			} else {
				stopped = g.child.halted(e, func() {
					g.p.say("%s: suspended, so the lock is not renewed: if this lasts longer than its lease, the command is ended then", g.name)
				})
			}
		}
	}
}

// step does what the lock's state asks for, and returns in how long to look again.
func (g *guard) step() time.Duration {
	before, now := g.ender.told(), time.Now()
	do, again := g.ender.step(now, g.held.Deadline(), !g.held.Valid())
	switch {
	case do != nothing && g.mayNotEnd():
	case !before && g.ender.told():
		g.p.say("%s: %s: %s", g.name, g.why(), g.child.sentence(do, g.ender.killAt.Sub(now).Round(time.Millisecond)))
	case do == kill && g.child.alive():
		g.p.say("%s: the command has not ended by itself: it is killed", g.name)
	}
	switch do {
	case terminate:
		g.child.terminate()
	case kill:
		g.child.kill()
	}
	return max(again.Sub(now), 0)
}

// mayNotEnd reports whether no signal reaches what is left of the command, and says so
// once.
func (g *guard) mayNotEnd() bool {
	if !g.child.barred() {
		return false
	}
	if !g.barred {
		g.barred = true
		g.p.say("%s: %s: the command runs as another user, so it may not be ended by this one, and works on beside the next holder: "+
			"use sudo wheellock run", g.name, g.why())
	}
	return true
}

// why says why the command is ended.
func (g *guard) why() string {
	var lost *lock.LostError
	if err := g.held.Err(); errors.As(err, &lost) {
		return fmt.Sprintf("the lock is lost (%v)", lost.Reason)
	}
	return "Redis does not renew the lock, which soon another may have"
}
