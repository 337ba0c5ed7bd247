package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/endpoint"
)

// master is what a sentinel says about the master.
type master struct {
	addr  string
	runID string // empty for some seconds after a failover
	epoch int64  // the configuration epoch, which rises with each failover
}

const (
	// patience is how long ask waits for the slower sentinels after a majority has
	// answered. Just after a failover most sentinels do not know of it yet.
	patience = 50 * time.Millisecond
	// backwards is how long a majority must answer with an older configuration
	// until it is believed. That happens if the sentinels' state was made anew.
	backwards = 10 * time.Second
)

// ask asks all sentinels at once. It returns the master and the number of its turn.
func (s *Topology) ask(ctx context.Context) (master, int, error) {
	type answer struct {
		master
		err error
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel() // before the wait
	answers := make(chan answer, len(s.cfg.Sentinels))
	for _, addr := range s.cfg.Sentinels {
		wg.Go(func() {
			m, err := s.askOne(ctx, addr)
			answers <- answer{m, err}
		})
	}
	var best master
	var errs []error
	answered, majority := 0, len(s.cfg.Sentinels)/2+1
	var enough <-chan time.Time
	for answered+len(errs) < len(s.cfg.Sentinels) {
		select {
		case a := <-answers:
			if a.err != nil {
				errs = append(errs, a.err)
				continue
			}
			if answered++; answered == majority {
				t := time.NewTimer(patience)
				defer t.Stop()
				enough = t.C
			}
			if best.addr == "" || a.epoch > best.epoch || a.epoch == best.epoch && best.runID == "" {
				best = a.master
			}
			continue
		case <-enough:
		}
		break
	}
	if answered == 0 {
		return master{}, 0, fmt.Errorf("%w: %q: %w", ErrNoSentinel, s.cfg.Master, errors.Join(errs...))
	}
	m, turn, ok := s.note(best, answered >= majority, time.Now())
	if !ok {
		return master{}, 0, fmt.Errorf("%w: %q: the sentinels that answer have missed a failover", ErrNoSentinel, s.cfg.Master)
	}
	return m, turn, nil
}

// askOne asks one sentinel.
func (s *Topology) askOne(ctx context.Context, addr string) (master, error) {
	conn, err := s.dialSentinel(ctx, addr)
	if err != nil {
		return master{}, fmt.Errorf("%s: %w", addr, err)
	}
	defer conn.Close()
	fields, err := redis.StringMap(do(ctx, conn, "SENTINEL", "MASTER", s.cfg.Master))
	if err != nil {
		return master{}, fmt.Errorf("%s: %w", addr, err)
	}
	epoch, err := strconv.ParseInt(fields["config-epoch"], 10, 64)
	if err != nil || fields["ip"] == "" || fields["port"] == "" {
		return master{}, fmt.Errorf("%s: the answer has no address or no epoch", addr)
	}
	return master{addr: net.JoinHostPort(fields["ip"], fields["port"]), runID: fields["runid"], epoch: epoch}, nil
}

// dialSentinel dials until ctx ends, even if the options do not heed ctx.
func (s *Topology) dialSentinel(ctx context.Context, addr string) (redis.Conn, error) {
	return s.dials.Dial(ctx, addr, func(ctx context.Context) (redis.Conn, error) {
		to := endpoint.Dialer{NetDial: s.cfg.NetDial, TLS: s.cfg.TLS, Credentials: s.cfg.SentinelCredentials, Options: s.cfg.SentinelOptions}
		return to.Dial(ctx, "tcp", addr)
	})
}

// infoValue returns the value of a field of an INFO reply.
func infoValue(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
