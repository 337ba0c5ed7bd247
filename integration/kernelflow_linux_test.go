package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// flowEnv says for how long the flow is dead, in a process that has a network of its own.
const flowEnv = "WHEELLOCK_DEAD_FLOW"

// TestAFlowThatIsDeadInTheKernel: one TCP flow loses its packets for a while, and others
// live. The client gives its connection up, but many seconds later the kernel still delivers
// the requests that were written to it.
func TestAFlowThatIsDeadInTheKernel(t *testing.T) {
	if text := os.Getenv(flowEnv); text != "" {
		dead, err := time.ParseDuration(text)
		require.NoError(t, err)
		inDeadFlow(t, dead)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root may make a network")
	}
	for _, tool := range []string{"ip", "iptables", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			fixture.SkipLacking(t, "no "+tool+" here")
		}
	}
	fixture.NeedAbilities(t, redistest.ErrorStats)
	if out, err := exec.Command("unshare", "-n", "iptables", "-A", "INPUT", "-p", "tcp", "--sport", "1", "-j", "DROP").CombinedOutput(); err != nil {
		t.Skipf("a network cannot be made here: %v: %s", err, out)
	}
	t.Parallel()
	for _, dead := range []string{"2s", "10s", "40s"} {
		t.Run(dead, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && dead != "2s" || fixture.IsBrief() && dead == "40s" {
				t.Skip("WHEELLOCK_FAULTS=all and not -short, for it takes long")
			}
			runtime.LockOSThread() // the child dies with its thread, which could end when a server's does
			defer runtime.UnlockOSThread()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAFlowThatIsDeadInTheKernel$", "-test.v", "-test.timeout", "5m")
			cmd.Env = append(os.Environ(), flowEnv+"="+dead)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "too late") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// runTool runs a program that changes the network of this process.
func runTool(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

// flows are the local ports of the connections that were dialled, in order.
type flows struct {
	mu    sync.Mutex
	ports []int
}

func (f *flows) pool(addr string) *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				f.mu.Lock()
				f.ports = append(f.ports, c.LocalAddr().(*net.TCPAddr).Port)
				f.mu.Unlock()
			}
			return c, err
		}))
	}}
}

// inDeadFlow makes the flow for commands dead for a while.
func inDeadFlow(t *testing.T, dead time.Duration) {
	runTool(t, "ip", "link", "set", "lo", "up")
	s := fixture.Start(t, redistest.Options{})
	var f flows
	c, err := lock.New(f.pool(s.Addr()), lock.Config{Connections: 1, Lease: time.Minute})
	require.NoError(t, err)
	ctx := bounded.Context(t)

	sem, latch := c.Semaphore("semaphore"), c.CountDownLatch("latch")
	permits := c.PermitSemaphore("permits")
	for set, err := range map[string]error{
		"semaphore": secondOf(sem.TrySet(ctx, 1000)), "latch": secondOf(latch.TrySet(ctx, 1000)), "permits": secondOf(permits.TrySet(ctx, 10)),
	} {
		require.NoError(t, err, set)
	}
	kinds := map[string]*lock.Mutex{
		"mutex": c.Mutex("mutex"), "fenced": c.FencedMutex("fenced"), "fair": c.FairMutex("fair"),
		"reader": c.RWMutex("read").Reader(), "writer": c.RWMutex("write").Writer(),
	}
	for name, mu := range kinds { // the server knows the scripts then
		held, err := mu.Lock(ctx)
		require.NoError(t, err, name)
		require.NoError(t, held.Unlock(ctx), name)
	}
	require.NoError(t, sem.Acquire(ctx, 1))
	require.NoError(t, sem.Release(ctx, 1))
	guarded, err := c.Mutex("guarded").Lock(ctx)
	require.NoError(t, err)
	_, err = guarded.Guard(ctx, "SET", []string{"value"}, 0)
	require.NoError(t, err)
	f.mu.Lock()
	port := fmt.Sprint(f.ports[0]) // nothing but commands was needed so far, nor waited for
	f.mu.Unlock()

	rule := []string{"INPUT", "-i", "lo", "-p", "tcp", "--sport", port, "-j", "DROP"}
	runTool(t, "iptables", append([]string{"-A"}, rule...)...)
	begun := time.Now()
	var wg sync.WaitGroup
	short := func(f func(ctx context.Context) error) {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			if err := f(ctx); err == nil {
				t.Error("it was answered")
			}
		})
	}
	for _, mu := range kinds {
		short(func(ctx context.Context) error { return secondOf(mu.TryLock(ctx)) })
	}
	short(func(ctx context.Context) error { return secondOf(permits.TryAcquire(ctx, 1)) })
	short(func(ctx context.Context) error { return secondOf(guarded.Guard(ctx, "SET", []string{"value"}, "late")) })
	wg.Go(func() { require.NoError(t, sem.Acquire(ctx, 3)) })
	wg.Go(func() { require.NoError(t, sem.Release(ctx, 2)) })
	wg.Go(func() { require.NoError(t, latch.CountDown(ctx)) })
	wg.Wait()
	_, err = guarded.Guard(ctx, "SET", []string{"value"}, "last")
	require.NoError(t, err)
	time.Sleep(time.Until(begun.Add(dead)))
	runTool(t, "iptables", append([]string{"-D"}, rule...)...)

	// The kernel sends again after pauses that double, so the last pause may be as long as all before it.
	late := func() int { return strings.Count(info(t, s, "errorstats"), "errorstat_LATE") }
	if dead > 5*time.Second {
		require.Eventually(t, func() bool { return late() > 0 }, 2*time.Minute, 20*time.Millisecond, "it never arrived")
	} else {
		require.Eventually(t, func() bool { return time.Since(begun) > 3*dead }, time.Minute, 20*time.Millisecond)
	}
	t.Logf("of %v; refused because it came too late: %s", dead, strings.TrimSpace(info(t, s, "errorstats")))
	time.Sleep(time.Second)
	for _, key := range []string{"mutex", "fenced", "fair", "read", "write", "{permits}:timeout"} {
		require.False(t, fixture.Exists(t, s, key), "%s: nobody has it", key)
	}
	free, err := sem.Available(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 999, free)
	left, err := latch.Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 999, left)
	value, err := redis.String(fixture.Do(t, s, "GET", "value"), nil)
	require.NoError(t, err)
	require.Equal(t, "last", value)
	require.NoError(t, guarded.Unlock(ctx))
	require.NoError(t, c.Close(ctx))
}

// secondOf returns the error of a call that also returns a value. It returns nil for a refused TryLock,
// because that was answered.
func secondOf[T any](_ T, err error) error {
	if errors.Is(err, lock.ErrNotAcquired) {
		return nil
	}
	return err
}

func info(t *testing.T, s *redistest.Server, section string) string {
	text, err := redis.String(fixture.Do(t, s, "INFO", section), nil)
	require.NoError(t, err)
	return text
}
