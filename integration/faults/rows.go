package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/redistest"
)

// what holds in most rows, in the words of the table
const (
	safe = "no overlap; told before the server's expiry"
	lose = "told within an interval and a round trip; the register refuses the old holder"
)

// Calm is the row without a fault: what fails here is no fault's doing.
func Calm() Row {
	return Row{Name: "none", Promise: safe, Inject: func(ctx context.Context, s *scene) (int, error) {
		sleep(ctx, s.Lease)
		return 1, nil
	}}
}

// Rows is the matrix.
func Rows() []Row {
	return append([]Row{
		Calm(),
		{Name: "many keys", Promise: safe, Load: Load{Mutexes: 1, Each: 1, Many: 1500}, Inject: resets},

		// The network.
		{Name: "black hole", Promise: safe, Inject: hole(true, true)},
		{Name: "requests lost", Promise: safe, Inject: hole(true, false)},
		{Name: "replies lost", Promise: safe, Inject: hole(false, true)},
		{Name: "short holes", Promise: safe, Inject: shortHoles},
		{Name: "resets", Promise: safe, Inject: resets},
		{Name: "latency and jitter", Promise: safe, Inject: latency(0.01, 0.025)},
		{Name: "cut in mid-reply", Promise: safe, Inject: cuts},
		{Name: "pub/sub cut", Promise: safe, Inject: pubsubCut},

		// Holders.
		{Name: "holder stopped", Promise: safe + ", counted from SIGCONT", Inject: stopHolder},
		{Name: "holder killed", Promise: safe + "; free after its lease", Kills: true, Inject: killHolder},

		// The server.
		{Name: "Redis stopped", Promise: safe, Inject: stopRedis(0.5, 1.25)},
		{Name: "Redis killed, empty", Promise: lose, Loses: true, Inject: restart},
		{Name: "Redis killed, AOF", Promise: safe, Args: []string{"--appendonly", "yes", "--appendfsync", "always"}, Inject: restart},
		{Name: "DEBUG SLEEP", Promise: safe, Args: redistest.DebugArgs(), Inject: debugSleep(0.25, 1)},
		{Name: "CLIENT KILL normal", Promise: safe, Inject: clientKill("normal")},
		{Name: "CLIENT KILL pubsub", Promise: safe, Inject: clientKill("pubsub")},
		{Name: "CLIENT PAUSE", Promise: safe, Inject: clientPause(0.25, 1)},
		{Name: "SCRIPT FLUSH", Promise: safe, Inject: commands(20, "SCRIPT", "FLUSH")},
		{Name: "FLUSHALL", Promise: lose, Loses: true, Rounds: 2, Inject: commands(1, "FLUSHALL")},
		{Name: "DEL of held keys", Promise: lose, Loses: true, Rounds: 2, Inject: deleteHeld},
		{Name: "maxclients", Promise: safe, Inject: maxClients},
		{Name: "maxmemory noeviction", Promise: safe, Inject: outOfMemory},
		{Name: "maxmemory evicts", Promise: lose, Loses: true, NoPermits: true, Inject: evict},
		{Name: "REPLICAOF flip", Promise: lose, Loses: true, Blind: true, Start: pair, Inject: flip},
		{Name: "server clock +60 s", Promise: lose, Loses: true, Stretches: true, Start: withOwnClock, Blind: true, Inject: stepClock(60)},
		{Name: "server clock -60 s", Promise: safe + "; the abandoned stays longer", Stretches: true, Start: withOwnClock, Blind: true, Inject: stepClock(-60)},
	}, Mixed()...)
}

// Mixed are the rows whose faults the seed picks.
func Mixed() []Row {
	return []Row{
		{
			Name: "mixed, no loss of data", Promise: safe, Args: redistest.DebugArgs(), Rounds: 4,
			Inject: oneOf(shortHoles, resets, latency(0.01, 0.025), cuts, pubsubCut, stopRedis(0.1, 1.25), debugSleep(0.1, 1), clientKill("normal"), clientPause(0.1, 1), commands(5, "SCRIPT", "FLUSH"), maxClients),
		},
		{
			Name: "mixed, with loss of data", Promise: lose, Loses: true, Rounds: 4,
			Inject: oneOf(restart, commands(1, "FLUSHALL"), deleteHeld, shortHoles, resets, stopHolder),
		},
	}
}

// Soak is the row of a long run: faults that the seed picks, with rests, while
// locks are held in all. No fault is as long as a lease, so hardly a lock is
// lost; those that are must be told as always.
func Soak(length time.Duration, locks int) Row {
	rest := func(ctx context.Context, s *scene) (int, error) {
		sleep(ctx, between(s.rng, s.Lease/10, s.Lease))
		return 0, nil
	}
	return Row{
		Name: "soak", Promise: safe, For: length, Args: redistest.DebugArgs(),
		Load: Load{Mutexes: 3, Each: 2, RW: 1, Permits: 1, Counts: 1, Shared: 1, Many: locks / processes, Throng: 6, Pause: 300 * time.Millisecond},
		Inject: oneOf(rest, shortHoles, resets, latency(0.001, 0.002), cuts, pubsubCut, clientKill("normal"), clientKill("pubsub"),
			commands(5, "SCRIPT", "FLUSH"), maxClients, stopRedis(0.05, 0.3), debugSleep(0.05, 0.3), clientPause(0.05, 0.3)),
	}
}

type injection = func(ctx context.Context, s *scene) (int, error)

// oneOf does one of them, as the seed says.
func oneOf(all ...injection) injection {
	return func(ctx context.Context, s *scene) (int, error) { return all[s.rng.IntN(len(all))](ctx, s) }
}

// between is a random time from a to b.
func between(rng *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(rng.Int64N(int64(b-a)+1))
}

// part is a random part of a lease, from a to b.
func (s *scene) part(a, b float64) time.Duration {
	return time.Duration((a + s.rng.Float64()*(b-a)) * float64(s.Lease))
}

// traffic is what a hole holds back and delivers late, as a network does.
func traffic(held bool) faultproxy.Traffic {
	if held {
		return faultproxy.Hold
	}
	return faultproxy.Flow
}

// hole lasts longer than a lease: everybody loses everything.
func hole(requests, replies bool) injection {
	return func(ctx context.Context, s *scene) (int, error) {
		s.proxy.Requests(traffic(requests))
		s.proxy.Replies(traffic(replies))
		sleep(ctx, s.Lease*5/4+between(s.rng, 0, s.Lease/4))
		return s.proxy.Open(), nil
	}
}

// shortHoles come and go within a lease: most locks live through them.
func shortHoles(ctx context.Context, s *scene) (int, error) {
	n := 0
	for range 4 {
		s.proxy.Requests(traffic(s.rng.IntN(2) == 1))
		s.proxy.Replies(traffic(s.rng.IntN(2) == 1))
		sleep(ctx, between(s.rng, s.Lease/20, s.Lease/4))
		s.proxy.Heal()
		sleep(ctx, between(s.rng, 0, s.Lease/4))
		n++
	}
	return n, nil
}

func resets(ctx context.Context, s *scene) (int, error) {
	n := 0
	for range 8 {
		n += s.proxy.Reset()
		sleep(ctx, between(s.rng, s.Lease/40, s.Lease/5))
	}
	return n, nil
}

// latency is in parts of a lease, for each direction. With very many locks a
// client cannot renew them all if round trips are long: two batches of some
// hundred are under way at once.
func latency(delay, jitter float64) injection {
	return func(ctx context.Context, s *scene) (int, error) {
		s.proxy.Slow(time.Duration(delay*float64(s.Lease)), time.Duration(jitter*float64(s.Lease)))
		sleep(ctx, s.Lease*3/2)
		return s.proxy.Open(), nil
	}
}

func cuts(ctx context.Context, s *scene) (int, error) {
	before := s.proxy.Cut()
	for range 10 {
		s.proxy.CutReplies(1 + s.rng.IntN(3))
		sleep(ctx, between(s.rng, s.Lease/40, s.Lease/5))
	}
	return s.proxy.Cut() - before, nil
}

func pubsubCut(ctx context.Context, s *scene) (int, error) {
	n := 0
	for range 20 {
		n += s.proxy.ResetSubscribers()
		sleep(ctx, between(s.rng, s.Lease/100, s.Lease/10))
	}
	return n, nil
}

// holder finds a process that holds a contended key and stops it there.
func (s *scene) holder(ctx context.Context) (*proc, error) {
	var found *proc
	if !eventually(ctx, patience, func() bool {
		for _, i := range s.rng.Perm(len(s.procs)) {
			p := s.procs[i]
			if p.dead || !s.holds(p) || suspend(p.cmd.Process) != nil {
				continue
			}
			// What it wrote before it stopped says whether it holds still.
			time.Sleep(20 * time.Millisecond)
			if s.holds(p) {
				found = p
				return true
			}
			_ = unsuspend(p.cmd.Process)
		}
		return false
	}) {
		return nil, errors.New("no process holds a contended key, or none can be stopped")
	}
	return found, nil
}

func (s *scene) holds(p *proc) bool {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	for key := range s.history.holding[p.n] {
		if strings.HasPrefix(key, "mutex") {
			return true
		}
	}
	return false
}

func stopHolder(ctx context.Context, s *scene) (int, error) {
	p, err := s.holder(ctx)
	if err != nil {
		return 0, err
	}
	sleep(ctx, 2*s.Lease)
	// Its pulse will say how long it stood.
	return 1, unsuspend(p.cmd.Process)
}

// killHolder puts another process in the place of the dead one.
func killHolder(_ context.Context, s *scene) (int, error) {
	p, err := s.holder(context.Background())
	if err != nil {
		return 0, err
	}
	p.dead = true
	if err := p.cmd.Process.Kill(); err != nil {
		return 0, err
	}
	<-p.done
	s.history.isKilled(p.n, now())
	return 1, s.launch()
}

func stopRedis(a, b float64) injection {
	return func(ctx context.Context, s *scene) (int, error) {
		if err := s.server.Pause(); err != nil {
			return 0, err
		}
		sleep(ctx, s.part(a, b))
		return 1, s.server.Resume()
	}
}

func restart(ctx context.Context, s *scene) (int, error) {
	if err := s.server.Kill(); err != nil {
		return 0, err
	}
	sleep(ctx, between(s.rng, 0, s.Lease/4))
	return 1, s.server.Restart(ctx)
}

func debugSleep(a, b float64) injection {
	return func(_ context.Context, s *scene) (int, error) {
		_, err := s.do("DEBUG", "SLEEP", fmt.Sprintf("%.3f", s.part(a, b).Seconds()))
		return 1, err
	}
}

func clientKill(what string) injection {
	return func(ctx context.Context, s *scene) (int, error) {
		n := 0
		for range 8 {
			killed, err := redis.Int(s.do("CLIENT", "KILL", "TYPE", what, "SKIPME", "yes"))
			if err != nil {
				return n, err
			}
			n += killed
			sleep(ctx, between(s.rng, s.Lease/40, s.Lease/5))
		}
		return n, nil
	}
}

func clientPause(a, b float64) injection {
	return func(ctx context.Context, s *scene) (int, error) {
		d := s.part(a, b)
		_, err := s.do("CLIENT", "PAUSE", d.Milliseconds())
		sleep(ctx, d)
		return 1, err
	}
}

// commands sends a command n times over a lease.
func commands(n int, cmd string, args ...any) injection {
	return func(ctx context.Context, s *scene) (int, error) {
		for i := range n {
			if i > 0 {
				sleep(ctx, s.Lease/time.Duration(n))
			}
			if _, err := s.do(cmd, args...); err != nil {
				return i, err
			}
		}
		return n, nil
	}
}

// deleteHeld deletes keys under their holders, as an operator may.
func deleteHeld(_ context.Context, s *scene) (int, error) {
	n := 0
	for range 10 {
		for _, pattern := range []string{"mutex-*", "rw-*", "shared-*", "many-*"} {
			keys, err := redis.Strings(s.do("KEYS", pattern))
			if err != nil {
				return n, err
			}
			for i, key := range keys {
				if i > 3 && s.rng.IntN(4) > 0 {
					continue
				}
				deleted, err := redis.Int(s.do("DEL", key))
				if err != nil {
					return n, err
				}
				n += deleted
			}
		}
		if n > 0 {
			break
		}
	}
	return n, nil
}

// maxClients lets nobody in and breaks the connections that there are.
func maxClients(ctx context.Context, s *scene) (int, error) {
	before, err := redis.Strings(s.do("CONFIG", "GET", "maxclients"))
	if err != nil {
		return 0, err
	}
	if _, err := s.do("CONFIG", "SET", "maxclients", 1); err != nil {
		return 0, err
	}
	if _, err := s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		return 0, err
	}
	refused, err := s.count("stats", "rejected_connections")
	if err != nil {
		return 0, err
	}
	sleep(ctx, s.part(0.1, 0.3))
	after, err := s.count("stats", "rejected_connections")
	_, err2 := s.do("CONFIG", "SET", "maxclients", before[1])
	return after - refused, errors.Join(err, err2)
}

// count reads a number of INFO on the connection that there is.
func (s *scene) count(section, field string) (int, error) {
	text, err := redis.String(s.do("INFO", section))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, field)
}

// outOfMemory makes the server refuse what needs memory.
func outOfMemory(ctx context.Context, s *scene) (int, error) {
	for _, setting := range [][]any{{"SET", "maxmemory-policy", "noeviction"}, {"SET", "maxmemory", "1"}} { // Redis 7 takes both at once
		if _, err := s.do("CONFIG", setting...); err != nil {
			return 0, err
		}
	}
	sleep(ctx, s.Lease)
	n := 0
	if _, err := s.do("SET", "ballast", "x"); err != nil && strings.Contains(err.Error(), "OOM") {
		n = 1
	}
	_, err := s.do("CONFIG", "SET", "maxmemory", "0")
	return n, err
}

// evict makes the server throw keys away, a few at a time.
func evict(ctx context.Context, s *scene) (int, error) {
	before, err := s.count("stats", "evicted_keys")
	if err != nil {
		return 0, err
	}
	if _, err := s.do("CONFIG", "SET", "maxmemory-policy", "allkeys-random"); err != nil {
		return 0, err
	}
	for range 5 {
		used, err := s.count("memory", "used_memory")
		if err != nil {
			return 0, err
		}
		// One that is just too small drops keys until it is not.
		if _, err := s.do("CONFIG", "SET", "maxmemory", used-4<<10); err != nil {
			return 0, err
		}
		sleep(ctx, s.Lease/20)
		if _, err := s.do("CONFIG", "SET", "maxmemory", 0); err != nil {
			return 0, err
		}
	}
	after, err := s.count("stats", "evicted_keys")
	return after - before, err
}
