//go:build unix

package world_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func init() { leaderMain = stoppedLeader }

const leaderLease = time.Second

// stoppedLeader leads, stops itself, and reports its first observation when it continues.
func stoppedLeader(con contest) error {
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, con.Network, con.Addr)
	}}
	defer pool.Close()
	c, err := lock.New(pool, lock.Config{Lease: leaderLease})
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	err = c.Mutex(con.Name).Do(context.Background(), func(ctx context.Context, held *lock.Held) error {
		fmt.Println("leads")
		began := time.Now()
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		for time.Since(began) < leaderLease { // the signal may stop this thread a little later
		}
		ended := ctx.Err() != nil
		fmt.Println(ended, fixture.IsClosed(held.Done()), held.Err() != nil, context.Cause(ctx))
		return nil
	})
	fmt.Println(err)
	return nil
}

// TestAStoppedLeaderKnowsAtOnceWhenItGoesOn that another process leads.
func TestAStoppedLeaderKnowsAtOnceWhenItGoesOn(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	next := fixture.ClientOf(t, s, lock.Config{Lease: leaderLease})
	rounds := 24
	if testing.Short() {
		rounds = 4
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for round := range rounds / 4 {
				lead(t, next, contest{Network: s.Network(), Addr: s.Addr(), Name: fmt.Sprint(t.Name(), i, round), Leads: true})
			}
		})
	}
	bounded.Wait(t, &wg)
}

// lead starts a child that leads and stops itself. The child continues when next leads.
func lead(t *testing.T, next *lock.Client, con contest) {
	arg, err := json.Marshal(con)
	if err != nil {
		t.Error(err)
		return
	}
	ctx := bounded.Context(t)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(arg)), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	held, err := next.Mutex(con.Name).Lock(ctx)
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	lines.Scan()
	if !strings.HasPrefix(lines.Text(), "true true true lock: ") {
		t.Errorf("it found: %s", lines.Text())
	}
	lines.Scan()
	if said := lines.Text(); said == fmt.Sprint(nil) || strings.Contains(said, lock.TrustEnded.String()) {
		t.Errorf("Do says: %s", said) // TrustEnded would blame Redis
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if held != nil {
		if err := held.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
}
