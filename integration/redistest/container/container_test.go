package container_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/integration/redistest/container"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a server for the length of the test. It skips the test where no container can be
// started, and unless WHEELLOCK_FAULTS is all.
func start(t *testing.T, o redistest.Options) *redistest.Server {
	t.Helper()
	t.Parallel()
	if !fixture.AllFaults() {
		t.Skip("WHEELLOCK_FAULTS=all: TestALockOnEachKindOfServer of integration starts a container anyway")
	}
	if err := container.Available(bounded.Context(t)); err != nil && !container.Required() {
		fixture.SkipLacking(t, err)
	}
	s, err := container.Start(bounded.Context(t), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func TestAKilledServerComesBackEmptyOnTheSameAddress(t *testing.T) {
	s := start(t, redistest.Options{Password: "s3cret/@:"})
	require.Equal(t, container.Container, s.Kind())
	addr := s.Addr()
	fixture.Do(t, s, "SET", "k", "v")
	for range 2 { // and again
		require.NoError(t, s.Kill())
		require.ErrorIs(t, s.Pause(), redistest.ErrNotRunning)
		require.ErrorIs(t, s.Resume(), redistest.ErrNotRunning)
		_, err := s.Dial()
		require.Error(t, err)
	}
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, addr, s.Addr())
	require.Equal(t, int64(0), fixture.Do(t, s, "DBSIZE"))
	require.Contains(t, s.Log(), "Server initialized")
	require.NoError(t, s.Stop())
	require.NoError(t, s.Stop(), "Stop again")
	for _, call := range []func() error{s.Pause, s.Resume, s.Kill, func() error { return s.Restart(t.Context()) }} {
		require.ErrorIs(t, call(), redistest.ErrStopped)
	}
}

func TestAPausedServerAnswersWhenItIsResumed(t *testing.T) {
	s := start(t, redistest.Options{Args: []string{"--appendonly", "yes"}})
	conn := fixture.Dial(t, s)
	fixture.DoOn(t, conn, "SET", "k", "v")
	require.NoError(t, s.Pause())
	require.NoError(t, s.Pause(), "Pause again")
	require.NoError(t, conn.Send("GET", "k"))
	require.NoError(t, conn.Flush())
	_, err := s.Dial()
	require.NoError(t, err, "the kernel accepts")
	require.NoError(t, s.Resume())
	require.NoError(t, s.Resume(), "Resume again")
	reply, err := conn.Receive()
	require.NoError(t, err)
	require.Equal(t, []byte("v"), reply)
	require.NoError(t, s.Pause())
	require.NoError(t, s.Kill(), "paused as it is")
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, []byte("v"), fixture.Do(t, s, "GET", "k"), "the file is there still")
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	start(t, redistest.Options{})
	for want, o := range map[string]redistest.Options{
		"Options.UnixSocket":      {UnixSocket: true},
		"Options.Args has --port": {Args: []string{"--port", "1"}},
		"Bad directive":           {Args: []string{"--no-such-setting", "1"}},
		"no-such-program":         {Binary: "no-such-program"},
	} {
		_, err := container.Start(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := container.Start(ctx, redistest.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestWithoutAnEngineItSaysWhatToDo(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/nobody.sock")
	err := container.Available(t.Context())
	require.ErrorIs(t, err, container.ErrNoEngine)
	require.ErrorContains(t, err, "DOCKER_HOST")
	_, err = container.Start(t.Context(), redistest.Options{})
	require.ErrorIs(t, err, container.ErrNoEngine)
}

func TestSentinelsOfContainersFailOver(t *testing.T) {
	start(t, redistest.Options{})
	s, err := redistest.StartSentinels(bounded.Context(t), redistest.SentinelOptions{Replicas: 1, Start: container.Start})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	require.NoError(t, s.Servers[0].Kill())
	require.Eventually(t, func() bool {
		m, err := s.Master(s.Sentinels[1])
		return err == nil && net.JoinHostPort(m["ip"], m["port"]) == s.Servers[1].Addr()
	}, time.Minute, 20*time.Millisecond)
}
