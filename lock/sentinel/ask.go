package sentinel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
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
	// before it is believed. A majority does so if the sentinels have lost their state.
	backwards = 10 * time.Second
)

// finding is the result of a question to all sentinels.
type finding struct {
	master
	turn  int   // the number of the master's turn
	doubt error // how the sentinels disagree; nil if they do not
}

// errSplit is the error of note if the sentinels disagree and no master is known.
var errSplit = errors.New("the sentinels disagree, and not exactly one of these servers is a master")

// ask asks all sentinels at once.
func (s *Topology) ask(ctx context.Context) (finding, error) {
	type answer struct {
		master
		err error
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	asking, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel() // before the wait
	answers := make(chan answer, len(s.cfg.Sentinels))
	for _, addr := range s.cfg.Sentinels {
		wg.Go(func() {
			m, err := s.askOne(asking, addr)
			answers <- answer{m, err}
		})
	}
	var latest []master // the answers with the highest epoch
	var errs []error
	answered := 0
	var enough <-chan time.Time
	for answered+len(errs) < len(s.cfg.Sentinels) {
		select {
		case a := <-answers:
			if a.err != nil {
				errs = append(errs, a.err)
				continue
			}
			if answered++; answered == s.majority() {
				t := time.NewTimer(patience)
				defer t.Stop()
				enough = t.C
			}
			if len(latest) > 0 && a.epoch > latest[0].epoch {
				latest = nil
			}
			if len(latest) == 0 || a.epoch == latest[0].epoch {
				latest = append(latest, a.master)
			}
			continue
		case <-enough:
		}
		break
	}
	cancel()
	if answered == 0 {
		return finding{}, fmt.Errorf("%w: %q: %w", ErrNoSentinel, s.cfg.Master, dialing.Join(errs...))
	}
	found, err := s.note(latest, answered >= s.majority(), time.Now())
	if err == errSplit {
		if masters := s.masters(ctx, latest); len(masters) == 1 {
			found, err = s.note(masters, answered >= s.majority(), time.Now())
		}
	}
	if err != nil {
		return finding{}, fmt.Errorf("%w: %q: %w", ErrNoSentinel, s.cfg.Master, errors.Join(err, disagreement(latest)))
	}
	if found.doubt == nil {
		found.doubt = disagreement(latest)
	}
	return found, nil
}

// majority returns the least number of sentinels that are a majority.
func (s *Topology) majority() int { return len(s.cfg.Sentinels)/2 + 1 }

// disagreement returns an error if these answers, which have the same epoch, name several
// addresses.
func disagreement(answers []master) error {
	votes := make(map[string]int)
	for _, m := range answers {
		votes[m.addr]++
	}
	if len(votes) < 2 {
		return nil
	}
	var text []string
	for _, addr := range slices.Sorted(maps.Keys(votes)) {
		text = append(text, fmt.Sprintf("%s (%d)", addr, votes[addr]))
	}
	return fmt.Errorf("sentinel: for configuration %d the sentinels name several masters: %s", answers[0].epoch, strings.Join(text, ", "))
}

// masters asks the servers that the sentinels name for their role, and returns the masters among them.
func (s *Topology) masters(ctx context.Context, named []master) (masters []master) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	servers := make(map[string]master)
	for _, m := range named {
		servers[m.addr] = m
	}
	var mu sync.Mutex // guards masters
	var wg sync.WaitGroup
	for _, m := range servers {
		wg.Go(func() {
			conn, err := s.dials.Dial(ctx, m.addr, func(ctx context.Context) (redis.Conn, error) { return s.dialMaster(ctx, m.addr) })
			if err != nil {
				return
			}
			conn.Close()
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, m)
		})
	}
	wg.Wait()
	return masters
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
	m := master{addr: net.JoinHostPort(fields["ip"], fields["port"]), runID: fields["runid"], epoch: epoch}
	// The sentinel that leads a failover tells the new epoch together with the old address,
	// until all replicas follow the new master. It tells the new address only when asked for it.
	if strings.Contains(fields["flags"], "failover_in_progress") {
		now, err := redis.Strings(do(ctx, conn, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.cfg.Master))
		if err == nil && len(now) == 2 && net.JoinHostPort(now[0], now[1]) != m.addr {
			m.addr, m.runID = net.JoinHostPort(now[0], now[1]), ""
		}
	}
	return m, nil
}

// dialSentinel dials until ctx ends, even if the options do not heed ctx.
func (s *Topology) dialSentinel(ctx context.Context, addr string) (redis.Conn, error) {
	return s.dials.Dial(ctx, addr, func(ctx context.Context) (redis.Conn, error) {
		return s.sentinel.Dial(ctx, "tcp", addr)
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
