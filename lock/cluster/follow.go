package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/topology"
)

const (
	retries    = 4 // how often a connection of GetContext tries again
	retryPause = 100 * time.Millisecond

	leastGap = 100 * time.Millisecond // the shortest time between two looks, however many hints come
	atOnce   = 3                      // nodes that are asked at once, because a single one may be cut off and wrong
	timeout  = 500 * time.Millisecond // for one question, including its dial
)

// Follow implements topology.Topology.
func (s *Topology) Follow(ctx context.Context, period time.Duration, hint <-chan struct{}, update func(topology.Layout)) {
	for ctx.Err() == nil {
		tables, err := s.look(ctx)
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

// look asks some nodes. If none of them answers, look asks others.
func (s *Topology) look(ctx context.Context) ([]table, error) {
	nodes := s.candidates()
	var errs []error
	for len(nodes) > 0 && ctx.Err() == nil {
		n := min(atOnce, len(nodes))
		tables, err := s.askAll(ctx, nodes[:n])
		if len(tables) > 0 {
			s.remember(tables)
			return tables, nil
		}
		errs = append(errs, err)
		nodes = nodes[n:]
	}
	return nil, fmt.Errorf("%w: %w", ErrNoTable, dialing.Join(errs...))
}

// askAll asks nodes at once. A table without slots does not count, because its node
// has left the Cluster or has not joined it yet.
func (s *Topology) askAll(ctx context.Context, nodes []string) ([]table, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		tables []table
		errs   []error
	)
	for _, addr := range nodes {
		wg.Go(func() {
			t, err := s.ask(ctx, addr)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case len(t.ranges) == 0:
				errs = append(errs, fmt.Errorf("cluster: %s: the node knows no slot: it has left the Cluster or has not joined it", addr))
			default:
				tables = append(tables, t)
			}
		})
	}
	wg.Wait()
	return tables, dialing.Join(errs...)
}

// candidates returns the known nodes in random order, then the startup nodes.
func (s *Topology) candidates() []string {
	s.mu.Lock()
	nodes := slices.Clone(s.nodes)
	s.mu.Unlock()
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for _, i := range rand.Perm(len(s.cluster.StartupNodes)) {
		if addr := s.cluster.StartupNodes[i]; !slices.Contains(nodes, addr) {
			nodes = append(nodes, addr)
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
