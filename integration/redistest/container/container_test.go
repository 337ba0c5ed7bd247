package container_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/integration/redistest/container"
)

func TestAServerStartsEmptyAndStopLeavesNothing(t *testing.T) {
	t.Parallel()
	need(t)
	before, _, err := container.Ours(t.Context())
	require.NoError(t, err)
	s, err := container.Start(t.Context(), container.Options{})
	require.NoError(t, err)
	require.Equal(t, container.Container, s.Kind())
	require.Contains(t, s.String(), container.Image()+") at 127.0.0.1:")
	bounded.Until(t, func() bool { return strings.Contains(s.Log(), "Ready to accept connections") }) // the log may be behind
	require.Equal(t, int64(0), fixture.Do(t, s, "DBSIZE"))
	during, _, err := container.Ours(t.Context())
	require.NoError(t, err)
	id := ""
	for i, expires := range during {
		if _, old := before[i]; !old {
			id = i
			require.True(t, expires.After(time.Now()))
		}
	}
	require.NotEmpty(t, id)
	require.NoError(t, s.Stop())
	require.NoError(t, s.Stop(), "Stop again")
	_, err = s.Dial()
	require.Error(t, err)
	for _, call := range []func() error{s.Pause, s.Resume, s.Kill, func() error { return s.Restart(bounded.Context(t)) }} {
		require.ErrorIs(t, call(), redistest.ErrStopped)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := start(t, container.Options{})
	old := fixture.Dial(t, s)
	fixture.DoOn(t, old, "SET", "k", "v", "PX", 100)
	require.NoError(t, s.Pause())
	require.NoError(t, s.Pause(), "Pause again")
	_, err := redis.DoWithTimeout(fixture.Dial(t, s), 150*time.Millisecond, "SET", "late", "v")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, s.Resume())
	require.NoError(t, s.Resume(), "Resume again")
	require.Equal(t, int64(0), fixture.DoOn(t, old, "EXISTS", "k"), "TTLs run on in a pause")
	require.Eventually(t, func() bool { return fixture.DoOn(t, old, "EXISTS", "late") == int64(1) },
		5*time.Second, 5*time.Millisecond, "what was sent in the pause is executed after it")
}

func TestKilledServerComesBackEmptyOnTheSameAddress(t *testing.T) {
	t.Parallel()
	s := start(t, container.Options{Password: "s3cret/@:"})
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
}

func TestAppendOnlyFileSurvivesKill(t *testing.T) {
	t.Parallel()
	s := start(t, container.Options{Args: []string{"--appendonly", "yes"}})
	fixture.Do(t, s, "SET", "k", "v")
	require.NoError(t, s.Pause())
	require.NoError(t, s.Kill(), "paused as it is")
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, []byte("v"), fixture.Do(t, s, "GET", "k"))
}

func TestRestartEndsAPausedServerFirst(t *testing.T) {
	t.Parallel()
	s := start(t, container.Options{})
	id := func() string {
		info, err := s.Info("server")
		require.NoError(t, err)
		return info["run_id"]
	}
	first := id()
	require.NoError(t, s.Pause())
	require.NoError(t, s.Restart(t.Context()))
	require.NotEqual(t, first, id())
	require.Contains(t, s.Log(), "User requested shutdown", "in good order")
}

func TestAPublishedPort(t *testing.T) {
	t.Parallel()
	need(t)
	s := kept(t)(container.StartPublished(t.Context(), container.Options{Password: "pw"}))
	addr := s.Addr()
	fixture.Do(t, s, "SET", "k", "v")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, addr, s.Addr())
	require.Equal(t, int64(0), fixture.Do(t, s, "DBSIZE"))

	_, err := redistest.StartCluster(t.Context(), redistest.ClusterOptions{Start: container.StartPublished})
	require.ErrorIs(t, err, redistest.ErrNotSupported)
}

func TestAPortThatWasTakenMeanwhile(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(*testing.T) int{
		"a container": func(t *testing.T) int { return port(t, start(t, container.Options{}).Addr()) },
		"somebody": func(t *testing.T) int {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { l.Close() })
			return port(t, l.Addr().String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t)
			taken, asked := server(t), 0
			s := kept(t)(container.StartOnPorts(t.Context(), container.Options{}, func() (int, error) {
				if asked++; asked == 1 {
					return taken, nil
				}
				return redistest.FreePort()
			}))
			require.Equal(t, 2, asked)
			require.NotEqual(t, taken, port(t, s.Addr()))
		})
	}
}

func port(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func TestFaultsOfStart(t *testing.T) {
	t.Parallel()
	need(t)
	_, err := container.Start(t.Context(), container.Options{UnixSocket: true, Dir: "x", Args: []string{"--port", "1"}})
	require.ErrorIs(t, err, redistest.ErrNotSupported)
	for _, want := range []string{"Options.UnixSocket", "Options.Dir", "Options.Args has --port"} {
		require.ErrorContains(t, err, want)
	}
	_, err = container.Start(t.Context(), container.Options{Args: []string{"--no-such-setting", "1"}})
	require.ErrorContains(t, err, "Bad directive")
	_, err = container.Start(t.Context(), container.Options{Binary: "no-such-program"})
	require.ErrorContains(t, err, "no-such-program")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = container.Start(ctx, container.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestWithoutAnEngineOrAnImageItSaysWhatToDo(t *testing.T) {
	if available() == nil {
		t.Setenv(container.EnvImage, "localhost:1/nobody:0")
		err := container.Available(t.Context())
		require.ErrorIs(t, err, container.ErrNoImage)
		require.ErrorContains(t, err, "localhost:1/nobody:0 is not here and cannot be pulled")
		require.ErrorContains(t, err, container.EnvImage)
		_, err = container.Start(t.Context(), container.Options{})
		require.ErrorIs(t, err, container.ErrNoImage)
	}
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/nobody.sock")
	err := container.Available(t.Context())
	require.ErrorIs(t, err, container.ErrNoEngine)
	require.ErrorContains(t, err, "DOCKER_HOST")
	_, err = container.Start(t.Context(), container.Options{})
	require.ErrorIs(t, err, container.ErrNoEngine)
}

// TestWhatAKilledTestHasLeftIsRemoved by the next Start, and nothing else.
func TestWhatAKilledTestHasLeftIsRemoved(t *testing.T) {
	t.Parallel()
	fresh := start(t, container.Options{})
	_, client, err := container.Ours(t.Context())
	require.NoError(t, err)
	left, err := client.CreateContainer(docker.CreateContainerOptions{Config: &docker.Config{
		Image: container.Image(), Cmd: []string{"redis-server"},
		Labels: map[string]string{container.ExpiryLabel: strconv.FormatInt(time.Now().Unix()-1, 10)},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.RemoveContainer(docker.RemoveContainerOptions{ID: left.ID}) })
	start(t, container.Options{})
	_, err = client.InspectContainer(left.ID)
	var gone *docker.NoSuchContainer
	require.ErrorAs(t, err, &gone)
	fixture.Do(t, fresh, "PING")
}

// TestAContainerThatAnotherRemoves at the same time, or has removed, is stopped
// all the same.
func TestAContainerThatAnotherRemoves(t *testing.T) {
	t.Parallel()
	for _, headStart := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 30 * time.Millisecond} {
		s := start(t, container.Options{})
		remove := remover(t, s)
		removed := make(chan error, 1)
		go func() { removed <- remove() }()
		time.Sleep(headStart)
		require.NoError(t, s.Stop())
		bounded.Receive(t, removed) // whoever was first
	}
	s := start(t, container.Options{})
	require.NoError(t, remover(t, s)())
	require.ErrorIs(t, s.Pause(), redistest.ErrNotRunning)
	require.ErrorIs(t, s.Resume(), redistest.ErrNotRunning)
	require.NoError(t, s.Kill())
}

// remover removes the container of s as another process would.
func remover(t *testing.T, s *redistest.Server) func() error {
	t.Helper()
	ours, client, err := container.Ours(t.Context())
	require.NoError(t, err)
	for id := range ours {
		c, err := client.InspectContainer(id)
		if err == nil && slices.Contains(c.Config.Cmd, strconv.Itoa(port(t, s.Addr()))) {
			return func() error {
				return client.RemoveContainer(docker.RemoveContainerOptions{ID: id, Force: true})
			}
		}
	}
	require.Fail(t, "no container has the server's port")
	return nil
}

func TestTheEngineEndsAContainerThatIsTooOld(t *testing.T) {
	t.Parallel()
	need(t)
	s := kept(t)(container.StartFor(t.Context(), container.Options{}, 2*time.Second))
	fixture.Do(t, s, "PING")
	require.Eventually(t, func() bool {
		c, err := s.Dial()
		if err == nil {
			c.Close()
		}
		return err != nil
	}, time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool { return errors.Is(s.Pause(), redistest.ErrNotRunning) }, time.Minute, 5*time.Millisecond)
}

func TestSentinelsOfContainersFailOver(t *testing.T) {
	t.Parallel()
	need(t)
	if testing.Short() {
		t.Skip("seven containers")
	}
	s, err := redistest.StartSentinels(bounded.Context(t), redistest.SentinelOptions{Replicas: 1, Start: container.Start})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	require.NoError(t, s.Servers[0].Kill())
	require.Eventually(t, func() bool {
		m, err := s.Master(s.Sentinels[1])
		return err == nil && net.JoinHostPort(m["ip"], m["port"]) == s.Servers[1].Addr()
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, s.Sentinels[0].Restart(bounded.Context(t)), "with the configuration that it had")
	m, err := s.Master(s.Sentinels[0])
	require.NoError(t, err)
	require.Equal(t, "mymaster", m["name"])
}

func TestAClusterOfContainers(t *testing.T) {
	t.Parallel()
	need(t)
	if testing.Short() {
		t.Skip("three containers")
	}
	c, err := redistest.StartCluster(bounded.Context(t), redistest.ClusterOptions{Start: container.Start})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Stop()) }()
	require.True(t, slices.ContainsFunc(c.Addrs(), func(a string) bool { return strings.HasPrefix(a, "127.0.0.1:") }))
	fixture.Do(t, c.Servers[2], "SET", "foo", "1")
	const slot = 12182 // of "foo"
	require.NoError(t, c.BeginMove(slot, 2, 0))
	require.NoError(t, c.MoveKeys(slot, 2, 0))
	require.NoError(t, c.EndMove(slot, 2, 0))
	require.Equal(t, []byte("1"), fixture.Do(t, c.Servers[0], "GET", "foo"))
}
