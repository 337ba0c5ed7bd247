package redistest_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

func TestStartAnswersAndStopLeavesNothing(t *testing.T) {
	srv := fixture.Server(t)
	require.Equal(t, redistest.Process, srv.Kind())
	require.Equal(t, "tcp", srv.Network())
	require.Regexp(t, `^(redis|valkey)-server \d+\.\d+\.\d+ \(a process of ours\) at 127\.0\.0\.1:\d+$`, srv.String())

	m, err := srv.Info("server")
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(srv.PID()), m["process_id"])

	c := fixture.Dial(t, srv)
	require.Equal(t, int64(0), fixture.DoOn(t, c, "DBSIZE"))
	config, err := redis.StringMap(c.Do("CONFIG", "GET", "*"))
	require.NoError(t, err)
	require.Empty(t, config["save"])
	require.Equal(t, "no", config["appendonly"])
	require.DirExists(t, config["dir"])

	require.NoError(t, srv.Stop())
	require.Zero(t, srv.PID())
	require.NoDirExists(t, config["dir"])
	_, err = srv.Dial()
	require.Error(t, err)

	require.NoError(t, srv.Stop(), "Stop again")
	require.ErrorIs(t, srv.Pause(), redistest.ErrStopped)
	require.ErrorIs(t, srv.Resume(), redistest.ErrStopped)
	require.ErrorIs(t, srv.Kill(), redistest.ErrStopped)
	require.ErrorIs(t, srv.Restart(t.Context()), redistest.ErrStopped)
}

func TestKeysExpire(t *testing.T) {
	c := fixture.Dial(t, fixture.Server(t))
	fixture.DoOn(t, c, "SET", "k", "v", "PX", 50)
	require.Eventually(t, func() bool { return fixture.DoOn(t, c, "EXISTS", "k") == int64(0) }, time.Minute, 5*time.Millisecond)
}

func TestPausedServerAcceptsAndDoesNotAnswer(t *testing.T) {
	srv := fixture.Server(t)
	old := fixture.Dial(t, srv)
	fixture.DoOn(t, old, "SET", "k", "v", "PX", 100)

	require.NoError(t, srv.Pause())
	require.NoError(t, srv.Pause(), "Pause again")
	paused := fixture.Dial(t, srv)
	_, err := redis.DoWithTimeout(paused, 150*time.Millisecond, "SET", "late", "v")
	require.True(t, fixture.IsTimeout(err), "%v", err)
	require.NotZero(t, srv.PID())

	require.NoError(t, srv.Resume())
	require.Equal(t, int64(0), fixture.DoOn(t, old, "EXISTS", "k"), "TTLs run on in a pause")
	require.Eventually(t, func() bool { return fixture.DoOn(t, old, "EXISTS", "late") == int64(1) },
		time.Minute, 5*time.Millisecond, "what was sent in the pause is executed after it")
}

func TestKilledServerComesBackEmptyOnTheSameAddress(t *testing.T) {
	srv := fixture.Server(t)
	addr, pid := srv.Addr(), srv.PID()
	fixture.Do(t, srv, "SET", "k", "v")

	require.NoError(t, srv.Kill())
	require.Zero(t, srv.PID())
	require.ErrorIs(t, srv.Pause(), redistest.ErrNotRunning)
	_, err := srv.Dial()
	require.Error(t, err)
	require.NoError(t, srv.Kill(), "Kill again")

	require.NoError(t, srv.Restart(t.Context()))
	require.Equal(t, addr, srv.Addr())
	require.NotZero(t, srv.PID())
	require.NotEqual(t, pid, srv.PID())
	require.Equal(t, int64(0), fixture.Do(t, srv, "DBSIZE"))
}

func TestAppendOnlyFileSurvivesKill(t *testing.T) {
	srv := fixture.Start(t, redistest.Options{Args: []string{"--appendonly", "yes"}})
	fixture.Do(t, srv, "SET", "k", "v")
	require.NoError(t, srv.Kill())
	require.NoError(t, srv.Restart(t.Context()))
	v, err := redis.String(fixture.Dial(t, srv).Do("GET", "k"))
	require.NoError(t, err)
	require.Equal(t, "v", v)
}

func TestRestartEndsAPausedServerFirst(t *testing.T) {
	srv := fixture.Server(t)
	pid := srv.PID()
	require.NoError(t, srv.Pause())
	require.NoError(t, srv.Restart(t.Context()))
	require.NotEqual(t, pid, srv.PID())
	fixture.Do(t, srv, "PING")
}

func TestStartWaitsUntilDataIsLoaded(t *testing.T) {
	fixture.NeedAbilities(t, redistest.SlowLoading)
	dir := t.TempDir()
	const keys = 2000
	first := fixture.Start(t, redistest.Options{Dir: dir})
	c := fixture.Dial(t, first)
	fixture.DoOn(t, c, "EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'k' .. i, i) end", 0, keys)
	fixture.DoOn(t, c, "SAVE")
	require.NoError(t, first.Stop())
	require.DirExists(t, dir, "a directory of the caller's stays")

	// Each key takes 200 us to load, and LOADING is answered meanwhile.
	second := fixture.Start(t, redistest.Options{Dir: dir, Args: []string{
		"--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024",
	}})
	require.Equal(t, int64(keys), fixture.Do(t, second, "DBSIZE"))
}

func TestPasswordIsAskedForAndGiven(t *testing.T) {
	srv := fixture.Start(t, redistest.Options{Password: "s3cret/@:"})
	fixture.Do(t, srv, "PING")

	c, err := redis.Dial(srv.Network(), srv.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")

	byURL, err := redis.DialURL(srv.URL())
	require.NoError(t, err)
	defer byURL.Close()
	fixture.DoOn(t, byURL, "PING")
}

func TestPasswordInArgsIsRefusedAtOnce(t *testing.T) {
	for _, args := range [][]string{{"--requirepass", "x"}, {"--requirepass x"}, {"--Port", "6379"}} {
		_, err := redistest.Start(t.Context(), redistest.Options{Args: args})
		require.ErrorContains(t, err, "which Start sets by itself")
	}
}

func TestUnixSocket(t *testing.T) {
	srv := fixture.Start(t, redistest.Options{UnixSocket: true, Dir: t.TempDir()})
	require.Equal(t, "unix", srv.Network())
	require.FileExists(t, srv.Addr())
	config, err := redis.StringMap(fixture.Dial(t, srv).Do("CONFIG", "GET", "port"))
	require.NoError(t, err)
	require.Equal(t, "0", config["port"])

	again, err := redistest.Connect(t.Context(), srv.URL())
	require.NoError(t, err)
	fixture.Do(t, again, "PING")

	require.NoError(t, srv.Stop())
	require.NoFileExists(t, srv.Addr())
}

func TestBadArgumentIsNamed(t *testing.T) {
	fixture.Server(t) // skips without a server
	t.Setenv("TMPDIR", t.TempDir())
	before := temporaries(t)
	_, err := redistest.Start(t.Context(), redistest.Options{Args: []string{"--no-such-setting", "1"}})
	require.ErrorContains(t, err, "ended before it answered")
	require.ErrorContains(t, err, "no-such-setting")
	require.Equal(t, before, temporaries(t), "a failed start leaves no directory")
}

// temporaries counts the directories that Start makes. Other test processes
// make some too, so TMPDIR is the test's own.
func temporaries(t *testing.T) int {
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	return len(entries)
}

func TestMissingProgramIsErrNoServer(t *testing.T) {
	_, err := redistest.Start(t.Context(), redistest.Options{Binary: "no-such-redis-server"})
	require.ErrorIs(t, err, redistest.ErrNoServer)
	require.ErrorContains(t, err, "no-such-redis-server")
}

func TestCancelledStartEndsWithItsContext(t *testing.T) {
	fixture.Server(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := redistest.Start(ctx, redistest.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestTakenPortIsLeftForAnother(t *testing.T) {
	// The first port answers PING, which must not pass for our server.
	other := fixture.Server(t)
	_, taken, err := net.SplitHostPort(other.Addr())
	require.NoError(t, err)
	picks := 0
	srv, err := redistest.StartOnPorts(t.Context(), redistest.Options{}, func() (int, error) {
		if picks++; picks <= 2 {
			return strconv.Atoi(taken)
		}
		return redistest.FreePort()
	})
	require.NoError(t, err)
	defer srv.Stop()
	require.Equal(t, 3, picks)
	require.NotEqual(t, other.Addr(), srv.Addr())
	m, err := srv.Info("server")
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(srv.PID()), m["process_id"])
}

func TestManyStartAtOnce(t *testing.T) {
	fixture.Server(t)
	var wg sync.WaitGroup
	var addrs sync.Map
	for range 8 {
		wg.Go(func() {
			srv, err := redistest.Start(t.Context(), redistest.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if _, twice := addrs.LoadOrStore(srv.Addr(), true); twice {
				t.Errorf("%s given twice", srv.Addr())
			}
			if err := srv.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	bounded.Wait(t, &wg)
}

func TestClusterNodeStarts(t *testing.T) {
	srv := fixture.Start(t, redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
	m, err := srv.Info("cluster")
	require.NoError(t, err)
	require.Equal(t, "1", m["cluster_enabled"])
}

func TestLogIsGivenAndKept(t *testing.T) {
	var log fixture.Log
	srv := fixture.Start(t, redistest.Options{Log: &log})
	require.NoError(t, srv.Stop())
	require.Contains(t, log.String(), "Ready to accept connections")
	require.Contains(t, srv.Log(), "Ready to accept connections")
}

func TestPausedServerStopsQuickly(t *testing.T) {
	srv := fixture.Server(t)
	require.NoError(t, srv.Pause())
	begin := time.Now()
	require.NoError(t, srv.Stop())
	require.Zero(t, srv.PID())
	require.Less(t, time.Since(begin), 2*time.Second)
}

func TestPoolWaitsAtItsLimit(t *testing.T) {
	srv := fixture.Server(t)
	p := srv.Pool(1)
	defer p.Close()
	c := p.Get()
	fixture.DoOn(t, c, "PING")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := p.GetContext(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Close())
}
