package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/ory/dockertest/v3/docker"

	"github.com/wheellock/wheellock/integration/redistest"
)

// machine is the redistest.Controller of a container.
type machine struct {
	// immutable once Start has returned
	engine  *engine
	options Options
	dir     string // the server's, in the container; no two have the same
	id      string // empty if it was never made
	dial    func(context.Context) (redis.Conn, error)

	expiring sync.WaitGroup // see expire

	// guarded by mu, which is held for as long as the container is being
	// started or ended: calls queue
	mu      sync.Mutex
	stopped bool
}

// expire makes the engine kill the container when it is too old, though nobody
// is left to ask for it: the engine is asked to stop it now, with a signal that
// does nothing, and to kill it if it has not ended after its lifetime. The
// request lasts as long as the container runs.
func (m *machine) expire() {
	m.expiring.Go(func() { _ = m.engine.client.StopContainer(m.id, uint(m.engine.lifetime/time.Second)) })
}

func (m *machine) running(ctx context.Context) bool {
	c, err := m.engine.client.InspectContainerWithContext(m.id, ctx)
	return err == nil && c.State.Running
}

func (m *machine) Pause() error { return m.freeze("pause", m.engine.client.PauseContainer, true) }

func (m *machine) Resume() error { return m.freeze("resume", m.engine.client.UnpauseContainer, false) }

// freeze pauses or resumes, which redistest may be asked for twice and Docker
// may not.
func (m *machine) freeze(what string, do func(id string) error, paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return redistest.ErrStopped
	}
	err := do(m.id)
	if err == nil {
		return nil
	}
	// Docker has no error of its own for either.
	c, inspected := m.engine.client.InspectContainer(m.id)
	switch {
	case isGone(inspected):
		return redistest.ErrNotRunning
	case inspected != nil:
	case !c.State.Running:
		return redistest.ErrNotRunning
	case c.State.Paused == paused:
		return nil
	}
	return fmt.Errorf("container: %s: %w", what, err)
}

func (m *machine) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return redistest.ErrStopped
	}
	return m.end(docker.SIGKILL)
}

// end sends the signal and returns when the container has ended, by force if it
// takes too long.
func (m *machine) end(signal docker.Signal) error {
	client := m.engine.client
	var notRunning *docker.ContainerNotRunning
	if err := client.KillContainer(docker.KillContainerOptions{ID: m.id, Signal: signal}); err != nil &&
		!errors.As(err, &notRunning) && !isGone(err) {
		return fmt.Errorf("container: kill: %w", err)
	}
	// A frozen process takes its signal, and that before all else, when it is
	// thawed. Some engines do so by themselves.
	_ = client.UnpauseContainer(m.id)
	limit := startTimeout
	if signal != docker.SIGKILL {
		limit = stopTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := client.WaitContainerWithContext(m.id, ctx); err != nil && !isGone(err) {
		if signal != docker.SIGKILL {
			return m.end(docker.SIGKILL)
		}
		return fmt.Errorf("container: kill: %w", err)
	}
	m.expiring.Wait()
	return nil
}

func (m *machine) Restart(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return redistest.ErrStopped
	}
	if err := m.end(docker.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if _, err := m.launch(ctx); err != nil {
		return errors.Join(err, m.end(docker.SIGKILL))
	}
	return nil
}

// Stop removes the container with its volumes. Nothing of it is wanted any
// more, so it does not end it in good order first.
func (m *machine) Stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.id == "" {
		return nil
	}
	m.stopped = true
	if err := m.remove(); err != nil {
		return fmt.Errorf("container: stop: %w", err)
	}
	m.expiring.Wait()
	return nil
}

// remove returns when the container is gone. Another process's sweep may be
// removing it too, if it is too old; Docker refuses the second removal for as
// long as the first one takes.
func (m *machine) remove() error {
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := m.engine.client.RemoveContainer(docker.RemoveContainerOptions{ID: m.id, Force: true, RemoveVolumes: true})
		if err == nil || isGone(err) {
			return nil
		}
		var refused *docker.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || time.Since(begun) > startTimeout {
			return err
		}
	}
}

// isGone reports whether Docker does not know the container: it was removed.
func isGone(err error) bool {
	var gone *docker.NoSuchContainer
	return errors.As(err, &gone)
}

// Log asks the engine; after Stop there is nothing left.
func (m *machine) Log() string {
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := m.engine.client.Logs(docker.LogsOptions{
		Context: ctx, Container: m.id, Tail: "200", Stdout: true, Stderr: true, OutputStream: &log, ErrorStream: &log,
	})
	if err != nil {
		return "(" + err.Error() + ")"
	}
	const most = 16 << 10
	text := log.String()
	return text[max(0, len(text)-most):]
}
