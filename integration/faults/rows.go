package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/wheellock/wheellock/integration/faultproxy"
)

// what holds in most rows, in the words of the table
const (
	safe = "no overlap; told before the server's expiry"
	lose = "told within an interval and a round trip; the register refuses the old holder"
)

// Rows is the matrix: the faults that need real processes, their memory or their clocks.
// Package simulation has the others. The first row is without a fault: what fails there
// is no fault's doing.
func Rows() []Row {
	return []Row{
		{Name: "none", Promise: safe, Inject: func(ctx context.Context, s *scene) (int, error) {
			sleep(ctx, s.Lease)
			return 1, nil
		}},
		{Name: "black hole", Promise: safe, Inject: blackHole},
		{Name: "holder stopped", Promise: safe + ", counted from SIGCONT", Inject: stopHolder},
		{Name: "holder killed", Promise: safe + "; free after its lease", Inject: killHolder},
		{Name: "Redis stopped", Promise: safe, Inject: stopRedis},
		{Name: "Redis killed, empty", Promise: lose, Loses: true, Inject: restart},
		{Name: "Redis killed, AOF", Promise: safe, Args: []string{"--appendonly", "yes", "--appendfsync", "always"}, Inject: restart},
		{Name: "full memory", Promise: safe, Inject: fillMemory},
		{Name: "REPLICAOF flip", Promise: lose, Loses: true, Blind: true, Start: startPair, Inject: promoteReplica},
		{Name: "server clock +60 s", Promise: lose, Loses: true, Stretches: true, Start: startWithOwnClock, Blind: true, Inject: stepClock(60)},
		{Name: "server clock -60 s", Promise: safe + "; the abandoned stays longer", Stretches: true, Start: startWithOwnClock, Blind: true, Inject: stepClock(-60)},
	}
}

// randomBetween is a random time from a to b.
func randomBetween(rng *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(rng.Int64N(int64(b-a)+1))
}

// blackHole lasts longer than a lease, so everybody loses everything. It holds traffic back
// and delivers it late, as a network does.
func blackHole(ctx context.Context, s *scene) (int, error) {
	s.proxy.SetRequests(faultproxy.Hold)
	s.proxy.SetReplies(faultproxy.Hold)
	sleep(ctx, randomBetween(s.rng, s.Lease*5/4, s.Lease*3/2))
	return s.proxy.Open(), nil
}

// findHolder finds a process that holds a contended key and stops it there.
func (s *scene) findHolder(ctx context.Context) (*proc, error) {
	var found *proc
	if !pollUntil(ctx, patience, func() bool {
		for _, i := range s.rng.Perm(len(s.procs)) {
			p := s.procs[i]
			if p.dead || !s.holdsMutex(p) || suspend(p.cmd.Process) != nil {
				continue
			}
			// Its events from before it stopped say whether it still holds one.
			time.Sleep(20 * time.Millisecond)
			if s.holdsMutex(p) {
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

func (s *scene) holdsMutex(p *proc) bool {
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
	p, err := s.findHolder(ctx)
	if err != nil {
		return 0, err
	}
	sleep(ctx, 2*s.Lease)
	// Its pulse will say how long it stood.
	return 1, unsuspend(p.cmd.Process)
}

// killHolder puts another process in the place of the dead one.
func killHolder(ctx context.Context, s *scene) (int, error) {
	p, err := s.findHolder(ctx)
	if err != nil {
		return 0, err
	}
	p.dead = true
	if err := p.cmd.Process.Kill(); err != nil {
		return 0, err
	}
	<-p.done
	s.history.addKill(p.n, now())
	return 1, s.launch()
}

func stopRedis(ctx context.Context, s *scene) (int, error) {
	if err := s.server.Pause(); err != nil {
		return 0, err
	}
	sleep(ctx, randomBetween(s.rng, s.Lease/2, s.Lease*5/4))
	return 1, s.server.Resume()
}

func restart(ctx context.Context, s *scene) (int, error) {
	if err := s.server.Kill(); err != nil {
		return 0, err
	}
	sleep(ctx, randomBetween(s.rng, 0, s.Lease/4))
	return 1, s.server.Restart(ctx)
}

// fillMemory makes the server refuse what needs memory.
func fillMemory(ctx context.Context, s *scene) (int, error) {
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
