package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
	"github.com/wheellock/wheellock/lock/topology"
)

const (
	retries    = 4 // how often a connection of GetContext tries again
	retryPause = 100 * time.Millisecond

	leastGap = 100 * time.Millisecond // the shortest time between two looks, however many hints come
	atOnce   = 3                      // nodes that are asked at once, because one node may be cut off and wrong
	patience = 500 * time.Millisecond // how long look waits for silent nodes before it asks others, or ends
)

// Follow implements topology.Topology.
func (s *Topology) Follow(ctx context.Context, period time.Duration, hint <-chan struct{}, update func(topology.Layout)) {
	limit := s.options.DialTimeout
	if limit == 0 {
		limit = endpoint.DialTimeout
	}
	limit = min(limit, max(period, patience))
	for ctx.Err() == nil {
		tables, err := s.look(ctx, limit)
		switch {
		case len(tables) > 0:
			update(merge(tables))
		case ctx.Err() == nil:
			update(topology.Layout{Err: err})
		}
		sleep(ctx, min(leastGap, period), nil)
		sleep(ctx, period-min(leastGap, period), hint)
	}
}

func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// look asks some nodes, and more of them if these fail or are slow. limit is for one question
// with its dial. A node that hangs delays the others by patience at most.
func (s *Topology) look(ctx context.Context, limit time.Duration) ([]table, error) {
	type answer struct {
		table
		err error
	}
	nodes := s.candidates()
	answers := make(chan answer, len(nodes))
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait
	var tables []table
	var errs []error
	waiting := 0
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for next := true; next || waiting > 0; {
		if next {
			n := min(atOnce, len(nodes))
			for _, addr := range nodes[:n] {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(ctx, limit)
					defer cancel()
					t, err := s.ask(ctx, addr)
					answers <- answer{t, err}
				})
			}
			nodes, waiting = nodes[n:], waiting+n
			wait.Reset(patience)
		}
		select {
		case a := <-answers:
			waiting--
			if a.err != nil {
				errs = append(errs, a.err)
			} else if tables = append(tables, a.table); len(tables) == 1 {
				wait.Reset(patience) // for nodes that may disagree
			}
			next = waiting == 0
		case <-wait.C:
			if len(tables) > 0 {
				waiting = 0
			}
			next = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		next = next && len(tables) == 0 && len(nodes) > 0
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoTable, dialing.Join(errs...))
	}
	s.remember(tables)
	return tables, nil
}

// candidates returns the nodes in the order in which look asks them. These are the known nodes in
// random order. Behind the first atOnce, a startup node comes at the beginning of each group of
// atOnce or sooner, because a wrong table may name thousands of nodes that nobody can reach.
func (s *Topology) candidates() []string {
	s.mu.Lock()
	nodes := slices.Clone(s.nodes)
	s.mu.Unlock()
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for i, k := range rand.Perm(len(s.cluster.StartupNodes)) {
		addr := s.cluster.StartupNodes[k]
		from, to := slices.Index(nodes, addr), min(atOnce*(i+1), len(nodes))
		if from > to {
			nodes = slices.Delete(nodes, from, from+1)
		}
		if from < 0 || from > to {
			nodes = slices.Insert(nodes, to, addr)
		}
	}
	return nodes
}

func (s *Topology) remember(tables []table) {
	var nodes []string
	for _, t := range tables {
		nodes = append(nodes, t.nodes...)
	}
	slices.Sort(nodes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = slices.Compact(nodes)
}
