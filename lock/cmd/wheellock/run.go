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

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

const (
	// closeTimeout bounds how long Close may release a lock that may have been taken.
	closeTimeout = time.Second
	// groupPoll is how often watch asks whether all processes of a command that was told to end have ended.
	groupPoll = 20 * time.Millisecond
)

// run is the subcommand run.
func (p *program) run(args []string) (int, error) {
	o, err := p.parseRun(args)
	if err != nil {
		return 0, err
	}
	path, err := find(o.command[0])
	if err != nil {
		return 0, err
	}
	log := &notices{say: p.say, terse: true, quiet: o.quiet}
	client, err := o.servers.open(lock.Config{Lease: o.lease, Label: o.label, Logger: log.logger()})
	if err != nil {
		return 0, err
	}
	closeWait := closeTimeout
	defer func() { closeWithin(client, closeWait) }()
	signals := make(chan os.Signal, 16)
	defer signal.Stop(signals)
	listen(signals, ending)

	held, err := p.acquire(client, o, log, signals)
	keepUntil := time.Now().Add(o.keep)
	if err != nil {
		if o.quiet && statusOf(err) == statusNotAcquired {
			return statusNotAcquired, nil
		}
		p.sayAssumed(&o.servers)
		return 0, err
	}
	p.sayAssumed(&o.servers)
	log.open()
	env := childEnv(p.env, client, o.lock(), held)
	listen(signals, passed)
	c, err := startChild(path, o.command, env, p.stdio)
	if err != nil {
		_ = p.release(held)
		return 0, notStarted(o.command[0], path, err)
	}
	g := &guard{p: p, name: o.lock(), held: held, child: c, ender: newEnder(o.lease, o.grace), period: min(o.lease/20, time.Second)}
	status := g.watch(signals)
	isHeld, safe := held.Valid(), held.Deadline()
	if left := time.Until(keepUntil); left > 0 && !g.ender.hasToldToEnd() {
		err, closeWait = p.keepFor(held, left), 0
	} else {
		err = p.release(held)
	}
	if g.ender.hasToldToEnd() {
		status = statusLost
	} else if isLostBefore(err, isHeld, safe, time.Now()) {
		p.say("%s: the lock was lost while the command ran, so another may have run at the same time; the status of the command was %d", o.lock(), status)
		status = statusLost
	} else if err != nil && o.keep > 0 {
		p.say("%s: the command has ended, but it is not known whether the lock is kept for %v: %s", o.lock(), o.keep, plain(err))
	} else if err != nil {
		p.say("%s: the command has ended, but the lock was not released, and is free in %v at most: %s", o.lock(), o.lease, plain(err))
	}
	closeWithin(client, closeWait) // before the lines, because it may still release the lock
	p.lines.flush(flushTimeout)
	c.close() // it may end this process
	return status, nil
}

// isLostBefore reports whether err, the result of releasing or keeping the lock at the time now, says that the
// lock was lost while the command ran. When the command ended, the lock was held if isHeld is true, and was safe
// until safe. A lock that is lost only after safe, because Redis did not answer, was held while the command ran.
func isLostBefore(err error, isHeld bool, safe, now time.Time) bool {
	return errors.Is(err, lock.ErrLost) && (!isHeld || now.Before(safe))
}

func closeClient(c *lock.Client) { closeWithin(c, closeTimeout) }

// closeWithin closes a client. d bounds how long Close may release what the client holds.
func closeWithin(c *lock.Client, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = c.Close(ctx)
}

// keepFor sets the lease so that the lock ends by itself in d, after this process has exited.
func (p *program) keepFor(held *lock.Held, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), lock.DefaultUnlockTimeout)
	defer cancel()
	d = max(d+time.Millisecond, lock.MinLease).Truncate(time.Millisecond)
	if err := held.Extend(ctx, d); err != nil {
		return err
	}
	// Extend has not made a longer lease shorter. If this fails, or if Redis gets a renewal after it,
	// the lock is kept for the rest of that lease. The client renews the lock until it is closed.
	_, _ = held.Guard(ctx, "PEXPIRE", []string{held.Name()}, d.Milliseconds())
	return nil
}

// release unlocks. It takes Config.UnlockTimeout at most.
func (p *program) release(held *lock.Held) error { return held.Unlock(context.Background()) }

// acquire takes the lock and waits for it for o.wait at most. One of the ending signals
// ends the wait.
func (p *program) acquire(client *lock.Client, o runOptions, log *notices, signals <-chan os.Signal) (*lock.Held, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := make(chan takeResult, 1)
	go func() {
		held, err := take(ctx, client.Mutex(o.name), o, log)
		got <- takeResult{held, p.notTaken(ctx, client, o, err)}
	}()
	r, stop := awaitResult(got, signals, cancel)
	if stop == nil {
		return r.held, r.err
	}
	if r.err == nil {
		_ = p.release(r.held) // on an error the lock is free when its lease ends
	}
	return nil, &statusError{statusSignal + number(stop), fmt.Sprintf("%s: %v came before the command was started, so the command was not run", o.lock(), stop)}
}

// takeResult is the result of take.
type takeResult struct {
	held *lock.Held
	err  error
}

// awaitResult returns what comes from got, and the first signal, or nil if none has come by then. It
// calls cancel when a signal comes.
func awaitResult(got <-chan takeResult, signals <-chan os.Signal, cancel func()) (r takeResult, stop os.Signal) {
	for {
		select {
		case s := <-signals:
			if stop == nil {
				stop = s
			}
			cancel()
		case r = <-got:
			if stop == nil {
				select {
				case stop = <-signals: // select chooses at random if both are ready
				default:
				}
			}
			return r, stop
		}
	}
}

// take takes the lock. It tries once first, without a bound, so that o.wait bounds only
// the wait for another holder and not the time to connect.
func take(ctx context.Context, m *lock.Mutex, o runOptions, log *notices) (*lock.Held, error) {
	held, err := m.TryLock(ctx)
	if err == nil || o.wait == 0 || ctx.Err() != nil || !errors.Is(err, lock.ErrNotAcquired) && !gotNoAnswer(err) {
		return held, err
	}
	log.open()
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.wait)
		defer cancel()
	}
	held, waitErr := m.Lock(ctx)
	var said redis.Error
	cutShort := errors.Is(waitErr, context.DeadlineExceeded) && !gotNoAnswer(waitErr) && !errors.Is(waitErr, lock.ErrNotAcquired) && !errors.As(waitErr, &said)
	if cutShort {
		return nil, err // the first try was answered
	}
	return held, waitErr
}

// gotNoAnswer reports whether err says that Redis did not answer, or could not be asked.
func gotNoAnswer(err error) bool {
	return errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrNotSent)
}

// notTaken returns err with a text that says why the command was not run, and what to do.
func (p *program) notTaken(ctx context.Context, client *lock.Client, o runOptions, err error) error {
	if err == nil || statusOf(err) == statusUsage {
		return err
	}
	if statusOf(err) != statusNotAcquired {
		return &statusError{statusOf(err), fmt.Sprintf("%s: the command was not run: %s", o.lock(), o.servers.plain(err))}
	}
	another := "another"
	if label := labelOf(ctx, client, o); label != "" {
		another = fmt.Sprintf("another (%s)", label)
	}
	text := another + " has the lock"
	if o.wait > 0 {
		text = fmt.Sprintf("after %v %s still has the lock", o.wait, another)
	}
	var other *lock.HeldError
	if errors.As(err, &other) {
		if other.Foreign {
			text += " through another library"
		}
		if ttl := other.TTL.Round(100 * time.Millisecond); ttl > 0 {
			text += fmt.Sprintf(", and its lease has %v left", ttl)
		}
	}
	within, _ := p.lookupEnv("WHEELLOCK_NAME")
	switch {
	case within == o.lock():
		text += ": this wheellock was started by a command that runs under the same lock"
	case o.wait == 0:
		text += ": use -wait to wait for it"
	}
	return &statusError{statusNotAcquired, fmt.Sprintf("%s: the command was not run: %s: \"wheellock inspect %s\" says who has it", o.lock(), text, o.lock())}
}

// labelOf returns the label of the lock's holder. It returns "" for -quiet, and if Redis does
// not say the label within a second.
func labelOf(ctx context.Context, client *lock.Client, o runOptions) string {
	if o.quiet {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	v, err := look(ctx, client, o.name)
	if err != nil || len(v.Holders) == 0 {
		return ""
	}
	return v.Holders[0].Label
}

// childEnv returns the environment of the command.
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
	period time.Duration // longest time between two steps, because clocks can be set
	barred bool          // sayBarred has printed its line
}

// watch waits until the command has ended and returns its status. If the command was told
// to end, watch also waits for the processes that it started.
func (g *guard) watch(signals <-chan os.Signal) (status int) {
	done := g.held.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended, stopped := false, false
	for {
		again := g.step()
		if ended && (!g.ender.hasToldToEnd() || g.ender.killed || !g.child.alive()) {
			if g.ender.hasToldToEnd() && g.child.barred() {
				g.sayBarred()
			}
			return status
		}
		if stopped {
			// Only after step: if the lock was lost meanwhile, step has told the command to end.
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
			barred := g.child.barred()
			g.child.pass(s)
			if barred {
				g.p.say("%s: %v was not passed on: the command runs as another user", g.name, s)
			}
		case e := <-g.child.events:
			if e.ended {
				ended, status = true, e.status
			} else {
				stopped = g.child.handleStop(e, func() {
					g.p.say("%s: suspended, so the lock is not renewed: if the lock is lost meanwhile, the command is ended when it is resumed", g.name)
					g.p.lines.flush(g.period) // later this process writes nothing
				})
			}
		}
	}
}

// step ends or kills the command if the state of the lock demands that. It returns the time
// until the next step.
func (g *guard) step() time.Duration {
	before, now := g.ender.hasToldToEnd(), time.Now()
	do, again := g.ender.step(now, g.held.Deadline(), !g.held.Valid())
	barred, alive := do != nothing && g.child.barred(), do == kill && g.child.alive()
	switch do {
	case terminate:
		g.child.terminate()
	case kill:
		g.child.kill()
	}
	switch { // after the signal, so that nothing delays it
	case barred:
		g.sayBarred()
	case !before && g.ender.hasToldToEnd():
		g.p.say("%s: %s: %s", g.name, g.why(), g.child.sentence(do, g.ender.killAt.Sub(now).Round(time.Millisecond)))
	case alive:
		g.p.say("%s: the command has not ended by itself, so it is killed", g.name)
	}
	return max(again.Sub(now), 0)
}

// sayBarred says once that this process may send no signal to the rest of the command.
func (g *guard) sayBarred() {
	if g.barred {
		return
	}
	g.barred = true
	g.p.say("%s: %s: the command runs as another user, so it may not be ended by wheellock, and may run beside the next holder: "+
		"use sudo wheellock run", g.name, g.why())
}

// why returns the reason for ending the command.
func (g *guard) why() string {
	var lost *lock.LostError
	if err := g.held.Err(); errors.As(err, &lost) {
		return fmt.Sprintf("the lock is lost (%v)", lost.Reason)
	}
	return "Redis does not renew the lock, so another may soon have it"
}
