package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ory/dockertest/v3/docker"

	"github.com/wheellock/wheellock/integration/redistest"
)

// machine is the redistest.Controller of a container.
type machine struct {
	// immutable once Start has returned
	client    *docker.Client
	options   redistest.Options
	addr, dir string // of the server; dir is in the container, and no two have the same
	id        string // empty if it was never made

	expiring sync.WaitGroup // see launch

	mu      sync.Mutex // guards stopped; held while the container is being started or ended, so calls queue
	stopped bool
}

// Pause may be called twice, as redistest promises. Docker refuses that.
func (m *machine) Pause() error { return m.setPaused(m.client.PauseContainer, true) }

func (m *machine) Resume() error { return m.setPaused(m.client.UnpauseContainer, false) }

func (m *machine) setPaused(do func(id string) error, paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return redistest.ErrStopped
	}
	err := do(m.id)
	if err == nil {
		return nil
	}
	switch c, inspected := m.client.InspectContainer(m.id); {
	case inspected != nil:
		return fmt.Errorf("container: %w", err)
	case !c.State.Running:
		return redistest.ErrNotRunning
	case c.State.Paused != paused:
		return fmt.Errorf("container: %w", err)
	}
	return nil
}

func (m *machine) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kill()
}

// kill returns when the container has ended.
func (m *machine) kill() error {
	if m.stopped {
		return redistest.ErrStopped
	}
	var notRunning *docker.ContainerNotRunning
	if err := m.client.KillContainer(docker.KillContainerOptions{ID: m.id, Signal: docker.SIGKILL}); err != nil && !errors.As(err, &notRunning) {
		return fmt.Errorf("container: kill: %w", err)
	}
	_ = m.client.UnpauseContainer(m.id) // a frozen process takes its signal when it is thawed
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if _, err := m.client.WaitContainerWithContext(m.id, ctx); err != nil {
		return fmt.Errorf("container: kill: %w", err)
	}
	m.expiring.Wait()
	return nil
}

func (m *machine) Restart(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.kill(); err != nil {
		return err
	}
	if _, err := m.launch(ctx); err != nil {
		return errors.Join(err, m.kill())
	}
	return nil
}

// Stop removes the container with its volumes. It does not shut the server down in good
// order, because nothing of it is needed any more.
func (m *machine) Stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.id == "" {
		return nil
	}
	m.stopped = true
	if err := m.client.RemoveContainer(docker.RemoveContainerOptions{ID: m.id, Force: true, RemoveVolumes: true}); err != nil {
		return fmt.Errorf("container: stop: %w", err)
	}
	m.expiring.Wait()
	return nil
}

// Log asks the engine; after Stop there is nothing left.
func (m *machine) Log() string {
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := m.client.Logs(docker.LogsOptions{
		Context: ctx, Container: m.id, Tail: "100", Stdout: true, Stderr: true, OutputStream: &log, ErrorStream: &log,
	}); err != nil {
		return "(" + err.Error() + ")"
	}
	return log.String()
}
