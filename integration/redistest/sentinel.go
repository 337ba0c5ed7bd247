package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Sentinels are a master, its replicas, and sentinels that watch them, each a
// server of its own. Methods are safe for concurrent use.
type Sentinels struct {
	// Name is the name under which the sentinels watch the master.
	Name string
	// Servers are the master as it was at first and its replicas.
	Servers []*Server
	// Sentinels watch the Servers.
	Sentinels []*Server
}

// SentinelOptions are the settings of StartSentinels.
type SentinelOptions struct {
	Replicas  int // default 2
	Sentinels int // default 3
	// DownAfter is how long a silent master is waited for; default 500 ms.
	DownAfter time.Duration
	// Args are added to the command line of each server.
	Args []string
	// Start starts the servers and the sentinels; redistest.Start if nil.
	Start func(context.Context, Options) (*Server, error)
}

// StartSentinels starts a master, replicas and sentinels, and returns when all
// know each other. On an error nothing is left behind.
func StartSentinels(ctx context.Context, o SentinelOptions) (_ *Sentinels, err error) {
	if o.Replicas == 0 {
		o.Replicas = 2
	}
	if o.Sentinels == 0 {
		o.Sentinels = 3
	}
	if o.DownAfter == 0 {
		o.DownAfter = 500 * time.Millisecond
	}
	s := &Sentinels{Name: "mymaster"}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.Servers, err = startMany(ctx, o.Start, 1, Options{Args: o.Args}); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(s.Servers[0].Addr())
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	replicas, err := startMany(ctx, o.Start, o.Replicas, Options{Args: append([]string{"--replicaof", host, port}, o.Args...)})
	if s.Servers = append(s.Servers, replicas...); err != nil {
		return nil, err
	}
	conf := fmt.Sprintf("sentinel monitor %s %s %s %d\n", s.Name, host, port, o.Sentinels/2+1) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", s.Name, o.DownAfter.Milliseconds()) +
		fmt.Sprintf("sentinel failover-timeout %s 3000\n", s.Name)
	if s.Sentinels, err = startMany(ctx, o.Start, o.Sentinels, Options{Sentinel: conf}); err != nil {
		return nil, err
	}
	return s, pollUntil(ctx, "the sentinels to know each other and the replicas", func() bool {
		for _, x := range s.Sentinels {
			m, err := s.Master(x)
			if err != nil || m["num-slaves"] != fmt.Sprint(o.Replicas) || m["num-other-sentinels"] != fmt.Sprint(o.Sentinels-1) {
				return false
			}
		}
		info, err := s.Servers[0].Info("replication")
		for i := range o.Replicas {
			if err != nil || !strings.Contains(info[fmt.Sprintf("slave%d", i)], "state=online") {
				return false
			}
		}
		return true
	})
}

// Master returns what a sentinel knows of the master: ip, port, runid, flags.
func (s *Sentinels) Master(sentinel *Server) (map[string]string, error) {
	conn, err := sentinel.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return redis.StringMap(conn.Do("SENTINEL", "MASTER", s.Name))
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinels) Addrs() []string { return addrs(s.Sentinels) }

// Stop stops all.
func (s *Sentinels) Stop() error {
	return stopMany(append(append([]*Server{}, s.Sentinels...), s.Servers...))
}

// sentinelConf is where a sentinel keeps its configuration.
func (p *process) sentinelConf() string { return filepath.Join(p.dir, "sentinel.conf") }

// writeSentinelConf writes the configuration that the sentinel begins with; it
// rewrites it, so after a restart it goes on with its own.
func (p *process) writeSentinelConf() error {
	if p.options.Sentinel == "" {
		return nil
	}
	if _, err := os.Stat(p.sentinelConf()); err == nil {
		return nil
	}
	return os.WriteFile(p.sentinelConf(), []byte(p.options.Sentinel), 0o600)
}

// startMany starts n servers at once. On an error it returns the servers that run.
func startMany(ctx context.Context, start func(context.Context, Options) (*Server, error), n int, o Options) ([]*Server, error) {
	if start == nil {
		start = Start
	}
	servers, errs := make([]*Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = start(ctx, o) })
	}
	wg.Wait()
	running := servers[:0]
	for _, s := range servers {
		if s != nil {
			running = append(running, s)
		}
	}
	return running, errors.Join(errs...)
}

func stopMany(servers []*Server) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			_ = s.Kill() // they save nothing, and a replica that hangs takes seconds to end in good order
			errs[i] = s.Stop()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func addrs(servers []*Server) []string {
	out := make([]string, len(servers))
	for i, s := range servers {
		out[i] = s.Addr()
	}
	return out
}

// pollUntil polls until ok, or until ctx or startTimeout ends.
func pollUntil(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !ok() {
		if pauseFor(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("redistest: waiting for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
