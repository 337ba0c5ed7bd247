package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	// EnvImage names the environment variable that names the image.
	EnvImage = "WHEELLOCK_REDIS_IMAGE"

	// EnvRequire names the environment variable that turns "no container
	// here" from a reason to skip into an error, when it is "1".
	EnvRequire = "WHEELLOCK_REQUIRE_CONTAINER"

	// DefaultImage is used if WHEELLOCK_REDIS_IMAGE is not set.
	DefaultImage = "redis:7"
)

var (
	// ErrNoEngine says that no container engine answers. A test skips on it
	// unless Required.
	ErrNoEngine = errors.New("container: no Docker engine")

	// ErrNoImage says that the engine neither has the image nor can pull it. A
	// test skips on it unless Required.
	ErrNoImage = errors.New("container: no image")
)

// Required reports whether tests must not be skipped for want of a container:
// WHEELLOCK_REQUIRE_CONTAINER=1.
func Required() bool { return os.Getenv(EnvRequire) == "1" }

// Image is the image that Start uses.
func Image() string {
	if image := os.Getenv(EnvImage); image != "" {
		return image
	}
	return DefaultImage
}

// Available returns nil if Start has all it needs, else ErrNoEngine or
// ErrNoImage with what to do about it. It pulls the image if the engine has
// none, so it may take as long as that does; ctx ends it.
func Available(ctx context.Context) error {
	e, err := findEngine(ctx)
	if err != nil {
		return err
	}
	return e.needImage(ctx, Image())
}

// engine is the Docker engine. It is immutable.
type engine struct {
	client *docker.Client
	// host is where a published port is to be found; empty if containers share
	// our network.
	host     string
	lifetime time.Duration // of a container that nobody stops
}

func findEngine(ctx context.Context) (*engine, error) {
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
	e := &engine{client: pool.Client, lifetime: lifetime}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	rootless := slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.Contains(o, "rootless") })
	if runtime.GOOS != "linux" || info.Name != hostname || rootless {
		e.host = "127.0.0.1"
		if u, err := url.Parse(pool.Client.Endpoint()); err == nil && u.Hostname() != "" {
			e.host = u.Hostname()
		}
	}
	return e, nil
}

// needImage returns when the engine has the image.
func (e *engine) needImage(ctx context.Context, image string) error {
	_, err := e.client.InspectImage(image)
	if err == nil {
		return nil
	}
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return fmt.Errorf("container: %w", err)
	}
	repository, tag := docker.ParseRepositoryTag(image)
	if tag == "" {
		tag = "latest"
	}
	pulled := e.client.PullImage(docker.PullImageOptions{Repository: repository, Tag: tag, Context: ctx}, docker.AuthConfiguration{})
	if pulled == nil {
		_, pulled = e.client.InspectImage(image)
	}
	if pulled != nil {
		return fmt.Errorf("%w: %s is not here and cannot be pulled: %w (name one that is here in %s, or let .ci/run make one of this machine's redis-server)",
			ErrNoImage, image, pulled, EnvImage)
	}
	return nil
}

const (
	// lifetime is how long a container runs if nobody stops it.
	lifetime = 2 * time.Hour
	// expiryLabel is on all our containers: the second, since 1970, after which
	// nobody wants it any more.
	expiryLabel = "wheellock.expires"
)

// sweep removes containers of those who were killed before they could.
func (e *engine) sweep(ctx context.Context) {
	old, err := e.client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {expiryLabel}}, Context: ctx,
	})
	if err != nil {
		return // the next one will
	}
	for _, c := range old {
		at, err := strconv.ParseInt(c.Labels[expiryLabel], 10, 64)
		if err == nil && time.Now().Unix() > at {
			_ = e.client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true, Context: ctx})
		}
	}
}

// address is where a container is found whose server listens at, or is
// published at, port.
func (e *engine) address(port int) string {
	host := e.host
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
