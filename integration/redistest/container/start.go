package container

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/ory/dockertest/v3/docker"

	"github.com/wheellock/wheellock/integration/redistest"
)

// Container is the kind of the servers that Start starts.
const Container redistest.Kind = "container"

type (
	// Server is a redistest.Server, which Start makes one of.
	Server = redistest.Server

	// Options are those of redistest, of which UnixSocket, Dir and Log are
	// refused.
	Options = redistest.Options
)

const (
	startTimeout = 2 * time.Minute // of Start and Restart, beside ctx
	stopTimeout  = 3 * time.Second // from SIGTERM to SIGKILL
	portTries    = 20              // ports looked at before Start gives up
)

// errPortTaken says that somebody else was faster to bind the port.
var errPortTaken = errors.New("container: address already in use")

// Start starts a container with a Redis server and returns once that answers.
// It gives ErrNoEngine or ErrNoImage if there is none, redistest.ErrNotSupported
// for what this engine's containers cannot be, an error with the end of the
// server's log if it dies, and one that wraps ctx.Err() if ctx ends first; in
// each case nothing is left behind. ctx bounds the start only. The image is
// pulled if the engine does not have it.
//
// Of the methods of the Server PID is always 0. Pause freezes the whole
// container; the rest is as for a process.
func Start(ctx context.Context, o Options) (*Server, error) {
	e, err := findEngine(ctx)
	if err != nil {
		return nil, err
	}
	return e.start(ctx, o, redistest.FreePort)
}

func (e *engine) start(ctx context.Context, o Options, pickPort func() (int, error)) (*Server, error) {
	if err := e.validate(o); err != nil {
		return nil, err
	}
	image := Image()
	if err := e.needImage(ctx, image); err != nil {
		return nil, err
	}
	e.sweep(ctx)
	for try := 1; ; try++ {
		port, err := pickPort()
		if err != nil {
			return nil, err
		}
		m := &machine{engine: e, options: o, dir: fmt.Sprintf("/wheellock-%016x", rand.Uint64())}
		software, err := m.create(ctx, image, port)
		if err == nil {
			return redistest.Custom(Container, fmt.Sprintf("%s (a container of %s)", software.Program(), image), e.address(port), o.Password, m), nil
		}
		err = errors.Join(err, m.Stop())
		if !errors.Is(err, errPortTaken) || try == portTries {
			return nil, err
		}
	}
}

// validate refuses what a container cannot be.
func (e *engine) validate(o Options) error {
	errs := []error{o.Validate()}
	refuse := func(what string) {
		errs = append(errs, fmt.Errorf("container: %w: %s", redistest.ErrNotSupported, what))
	}
	if o.UnixSocket {
		refuse("Options.UnixSocket")
	}
	if o.Dir != "" {
		refuse("Options.Dir")
	}
	if o.Log != nil {
		refuse("Options.Log")
	}
	related := func(arg string) bool {
		return strings.HasPrefix(arg, "--cluster-enabled") || strings.HasPrefix(arg, "--replicaof")
	}
	if e.host != "" && (o.Sentinel != "" || slices.ContainsFunc(o.Args, related)) {
		refuse("servers that must reach each other, with an engine whose containers do not share this machine's network")
	}
	return errors.Join(errs...)
}

// command is the command line of the server.
func (m *machine) command(port int) []string {
	binary := m.options.Binary
	if binary == "" {
		binary = "redis-server"
	}
	args := []string{binary, "--save", "", "--appendonly", "no"}
	if m.options.Sentinel != "" {
		args = []string{binary, m.dir + "/" + sentinelConf, "--sentinel"}
	}
	args = append(args, m.options.Args...)
	args = append(args, "--dir", m.dir, "--daemonize", "no", "--logfile", "", "--protected-mode", "no")
	if m.options.Password != "" {
		args = append(args, "--requirepass", m.options.Password)
	}
	if m.engine.host != "" {
		return append(args, "--bind", "0.0.0.0", "--port", publishedPort)
	}
	// Not 0.0.0.0: this is the machine's own network, and there is no password.
	return append(args, "--bind", "127.0.0.1", "--port", strconv.Itoa(port))
}

const (
	publishedPort = "6379"
	sentinelConf  = "sentinel.conf"
)

// create makes the container, starts it and returns what its server is. On an error
// it may be there.
func (m *machine) create(ctx context.Context, image string, port int) (redistest.Software, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	m.dial = func(ctx context.Context) (redis.Conn, error) {
		return redistest.Custom(Container, "", m.engine.address(port), m.options.Password, m).DialContext(ctx)
	}
	host := &docker.HostConfig{NetworkMode: "host"}
	exposed := map[docker.Port]struct{}{}
	if m.engine.host != "" {
		inside := docker.Port(publishedPort + "/tcp")
		exposed[inside] = struct{}{}
		outside := docker.PortBinding{HostPort: strconv.Itoa(port)}
		if m.engine.host == "127.0.0.1" {
			outside.HostIP = m.engine.host
		}
		host = &docker.HostConfig{PortBindings: map[docker.Port][]docker.PortBinding{inside: {outside}}}
	}
	command := m.command(port)
	c, err := m.engine.client.CreateContainer(docker.CreateContainerOptions{
		Context:    ctx,
		HostConfig: host,
		Config: &docker.Config{
			Image:        image,
			Entrypoint:   command[:1],
			Cmd:          command[1:],
			ExposedPorts: exposed,
			WorkingDir:   m.dir,
			Labels:       map[string]string{expiryLabel: strconv.FormatInt(time.Now().Add(m.engine.lifetime).Unix(), 10)},
			// A signal that Redis ignores: see expire.
			StopSignal: "SIGWINCH",
		},
	})
	if err != nil {
		return redistest.Software{}, fmt.Errorf("container: start: %w", err)
	}
	m.id = c.ID
	if err := m.upload(ctx); err != nil {
		return redistest.Software{}, fmt.Errorf("container: start: %w", err)
	}
	return m.launch(ctx)
}

// upload puts the files there that the server begins with.
func (m *machine) upload(ctx context.Context) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	dir := strings.TrimPrefix(m.dir, "/")
	errs := []error{w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})}
	if m.options.Sentinel != "" {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: dir + "/" + sentinelConf, Mode: 0o600, Size: int64(len(m.options.Sentinel))}))
		_, err := w.Write([]byte(m.options.Sentinel))
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		return err
	}
	return m.engine.client.UploadToContainer(m.id, docker.UploadToContainerOptions{InputStream: &archive, Path: "/", Context: ctx})
}

// launch starts the container and waits until its server answers.
func (m *machine) launch(ctx context.Context) (redistest.Software, error) {
	if err := m.engine.client.StartContainerWithContext(m.id, nil, ctx); err != nil {
		for _, taken := range []string{"address already in use", "port is already allocated"} {
			if strings.Contains(err.Error(), taken) {
				return redistest.Software{}, fmt.Errorf("%w: %w", errPortTaken, err)
			}
		}
		return redistest.Software{}, fmt.Errorf("container: start: %w", err)
	}
	m.expire()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		software, err := m.probe(ctx)
		if err == nil {
			return software, nil
		}
		if !m.running(ctx) {
			log := m.Log()
			if strings.Contains(strings.ToLower(log), "address already in use") {
				return redistest.Software{}, errPortTaken
			}
			return redistest.Software{}, fmt.Errorf("container: the server ended before it answered; its log ends:\n%s", log)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return redistest.Software{}, fmt.Errorf("container: start: %w; last: %w; the server's log ends:\n%s", ctx.Err(), err, m.Log())
		}
	}
}

// probe asks once whether our server answers, and not another on its port.
func (m *machine) probe(ctx context.Context) (redistest.Software, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return redistest.Software{}, err
	}
	defer conn.Close()
	// LOADING is an error here, and passes.
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil {
		return redistest.Software{}, err
	}
	text, err := redis.String(redis.DoContext(conn, ctx, "INFO", "server"))
	if err != nil {
		return redistest.Software{}, err
	}
	// Process ids say nothing in containers. Redis looks for its program where
	// it was started.
	info := redistest.InfoFields(text)
	if executable := info["executable"]; !strings.HasPrefix(executable, m.dir+"/") {
		return redistest.Software{}, fmt.Errorf("container: another server answers: %s", executable)
	}
	return redistest.SoftwareOf(info), nil
}
