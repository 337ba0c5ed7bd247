package container

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"

	"github.com/wheellock/wheellock/integration/redistest"
)

const (
	// EnvImage names the environment variable that names the image.
	EnvImage = "WHEELLOCK_REDIS_IMAGE"

	// EnvRequire names the environment variable that turns "no container
	// here" from a reason to skip into an error, when it is "1".
	EnvRequire = "WHEELLOCK_REQUIRE_CONTAINER"

	// DefaultImage is used if WHEELLOCK_REDIS_IMAGE is not set.
	DefaultImage = "redis:7"

	// Container is the kind of the servers that Start starts.
	Container redistest.Kind = "container"
)

var (
	// ErrNoEngine is returned when no container engine of this machine answers.
	// A test skips on it unless Required.
	ErrNoEngine = errors.New("container: no Docker engine")

	// ErrNoImage is returned when the engine neither has the image nor can pull
	// it. A test skips on it unless Required.
	ErrNoImage = errors.New("container: no image")
)

const (
	startTimeout = 2 * time.Minute // of Start and Restart, beside ctx
	portTries    = 20              // how many ports Start tries before it gives up
	sentinelConf = "sentinel.conf"

	// lifetime is how long a container runs if no test stops it.
	lifetime = 2 * time.Hour
	// expiryLabel is on all our containers: the second, since 1970, after which
	// the container may be removed.
	expiryLabel = "wheellock.expires"
)

// errPortTaken says that another process has bound the port.
var errPortTaken = errors.New("container: address already in use")

// Required reports whether tests must not be skipped for want of a container:
// WHEELLOCK_REQUIRE_CONTAINER=1.
func Required() bool { return os.Getenv(EnvRequire) == "1" }

func image() string { return cmp.Or(os.Getenv(EnvImage), DefaultImage) }

// Available returns nil if Start has all it needs, else ErrNoEngine or
// ErrNoImage with advice. It pulls the image if the engine does not have it,
// which may take long; ctx ends it.
func Available(ctx context.Context) error {
	_, err := newClient(ctx)
	return err
}

// newClient returns a client of an engine that has the image.
func newClient(ctx context.Context) (*docker.Client, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pool.Client.PingWithContext(ping); err != nil {
		return nil, fmt.Errorf("%w: %w (start one, or name it in DOCKER_HOST)", ErrNoEngine, err)
	}
	info, err := pool.Client.Info()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	if hostname, err := os.Hostname(); err != nil || info.Name != hostname {
		return nil, fmt.Errorf("%w of this machine: the engine of %s answers, whose network is another one", ErrNoEngine, info.Name)
	}
	if _, err := pool.Client.InspectImage(image()); !errors.Is(err, docker.ErrNoSuchImage) {
		return pool.Client, err
	}
	repository, tag := docker.ParseRepositoryTag(image())
	pull := docker.PullImageOptions{Repository: repository, Tag: cmp.Or(tag, "latest"), Context: ctx}
	if err := pool.Client.PullImage(pull, docker.AuthConfiguration{}); err != nil {
		return nil, fmt.Errorf("%w: %s is not here and cannot be pulled: %w (name one that is here in %s, or let .ci/run make one of this machine's redis-server)",
			ErrNoImage, image(), err, EnvImage)
	}
	return pool.Client, nil
}

// Start starts a container with a Redis server and returns once that answers. It
// uses Args, Binary, Password and Sentinel of o, and refuses the rest with
// redistest.ErrNotSupported. It returns ErrNoEngine or ErrNoImage as Available does,
// an error with the end of the server's log if the server dies, and an error that
// wraps ctx.Err() if ctx ends first; in each case nothing is left behind. ctx bounds
// the start only.
//
// The Server's PID is always 0. Pause freezes the whole container, and Restart kills
// the server first. All other methods do the same as for a process.
func Start(ctx context.Context, o redistest.Options) (*redistest.Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.UnixSocket || o.Dir != "" || o.Log != nil {
		return nil, fmt.Errorf("container: %w: Options.UnixSocket, Dir and Log", redistest.ErrNotSupported)
	}
	client, err := newClient(ctx)
	if err != nil {
		return nil, err
	}
	removeLeftovers(ctx, client)
	for try := 1; ; try++ {
		port, err := redistest.FreePort()
		if err != nil {
			return nil, err
		}
		m := &machine{client: client, options: o, addr: fmt.Sprint("127.0.0.1:", port), dir: fmt.Sprintf("/wheellock-%016x", rand.Uint64())}
		software, err := m.create(ctx, port)
		if err == nil {
			return redistest.Custom(Container, fmt.Sprintf("%s (a container of %s)", software.Program(), image()), m.addr, o.Password, m), nil
		}
		err = errors.Join(err, m.Stop())
		if !errors.Is(err, errPortTaken) || try == portTries {
			return nil, err
		}
	}
}

// removeLeftovers removes what killed tests have left.
func removeLeftovers(ctx context.Context, client *docker.Client) {
	old, err := client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {expiryLabel}}, Context: ctx,
	})
	if err != nil {
		return // the next Start will remove them
	}
	for _, c := range old {
		at, err := strconv.ParseInt(c.Labels[expiryLabel], 10, 64)
		if err == nil && time.Now().Unix() > at {
			_ = client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true, Context: ctx})
		}
	}
}

// command is the command line of the server.
func (m *machine) command(port int) []string {
	binary := cmp.Or(m.options.Binary, "redis-server")
	args := []string{binary, "--save", "", "--appendonly", "no"}
	if m.options.Sentinel != "" {
		args = []string{binary, m.dir + "/" + sentinelConf, "--sentinel"}
	}
	args = append(args, m.options.Args...)
	if m.options.Password != "" {
		args = append(args, "--requirepass", m.options.Password)
	}
	// Not 0.0.0.0: this is the machine's own network, and there is no password.
	return append(args, "--dir", m.dir, "--daemonize", "no", "--logfile", "", "--protected-mode", "no",
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port))
}

// create makes the container, starts it and returns the Software of its server. After an
// error the container may exist.
func (m *machine) create(ctx context.Context, port int) (redistest.Software, error) {
	command := m.command(port)
	c, err := m.client.CreateContainer(docker.CreateContainerOptions{
		Context:    ctx,
		HostConfig: &docker.HostConfig{NetworkMode: "host"},
		Config: &docker.Config{
			Image:      image(),
			Entrypoint: command[:1],
			Cmd:        command[1:],
			WorkingDir: m.dir,
			Labels:     map[string]string{expiryLabel: strconv.FormatInt(time.Now().Add(lifetime).Unix(), 10)},
			// A signal that Redis ignores: see launch.
			StopSignal: "SIGWINCH",
		},
	})
	if err != nil {
		return redistest.Software{}, fmt.Errorf("container: start: %w", err)
	}
	m.id = c.ID
	// The files that the server begins with.
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	dir := strings.TrimPrefix(m.dir, "/") + "/"
	errs := []error{w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755})}
	if m.options.Sentinel != "" {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: dir + sentinelConf, Mode: 0o600, Size: int64(len(m.options.Sentinel))}))
		_, err := w.Write([]byte(m.options.Sentinel))
		errs = append(errs, err)
	}
	errs = append(errs, w.Close(), m.client.UploadToContainer(m.id, docker.UploadToContainerOptions{InputStream: &archive, Path: "/", Context: ctx}))
	if err := errors.Join(errs...); err != nil {
		return redistest.Software{}, fmt.Errorf("container: start: %w", err)
	}
	return m.launch(ctx)
}

// launch starts the container and waits until its server answers.
func (m *machine) launch(ctx context.Context) (software redistest.Software, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := m.client.StartContainerWithContext(m.id, nil, ctx); err != nil {
		return software, fmt.Errorf("container: start: %w", err)
	}
	// If this process is killed, the engine must end the container. So the engine is
	// asked to stop it now, with a signal that does nothing, and to kill it after its
	// lifetime. The request lasts as long as the container runs.
	m.expiring.Go(func() { _ = m.client.StopContainer(m.id, uint(lifetime/time.Second)) })
	for ; ; time.Sleep(20 * time.Millisecond) {
		if software, err = m.probe(ctx); err == nil {
			return software, nil
		}
		if ctx.Err() != nil {
			return software, fmt.Errorf("container: start: %w; last: %w; the server's log ends:\n%s", ctx.Err(), err, m.Log())
		}
		if c, err := m.client.InspectContainerWithContext(m.id, ctx); err == nil && c.State.Running {
			continue
		}
		log := m.Log()
		if strings.Contains(strings.ToLower(log), "address already in use") {
			return software, errPortTaken
		}
		return software, fmt.Errorf("container: the server ended before it answered; its log ends:\n%s", log)
	}
}

// probe asks once whether our server answers, and not another on its port.
func (m *machine) probe(ctx context.Context) (software redistest.Software, err error) {
	conn, err := redistest.Custom(Container, "", m.addr, m.options.Password, m).DialContext(ctx)
	if err != nil {
		return software, err
	}
	defer conn.Close()
	// LOADING is an error of PING, and passes.
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil {
		return software, err
	}
	text, err := redis.String(redis.DoContext(conn, ctx, "INFO", "server"))
	if err != nil {
		return software, err
	}
	// Process ids say nothing in containers. Redis looks for its program where
	// it was started.
	info := redistest.InfoFields(text)
	if executable := info["executable"]; !strings.HasPrefix(executable, m.dir+"/") {
		return software, fmt.Errorf("container: another server answers: %s", executable)
	}
	return redistest.SoftwareOf(info), nil
}
