package container

import (
	"context"
	"strconv"
	"time"

	"github.com/ory/dockertest/v3/docker"

	"github.com/wheellock/wheellock/integration/redistest"
)

const ExpiryLabel = expiryLabel

// StartPublished is Start with an engine whose containers do not share our
// network.
func StartPublished(ctx context.Context, o Options) (*Server, error) {
	e, err := findEngine(ctx)
	if err != nil {
		return nil, err
	}
	e.host = "127.0.0.1"
	return e.start(ctx, o, redistest.FreePort)
}

// StartFor is Start with another lifetime.
func StartFor(ctx context.Context, o Options, lifetime time.Duration) (*Server, error) {
	e, err := findEngine(ctx)
	if err != nil {
		return nil, err
	}
	e.lifetime = lifetime
	return e.start(ctx, o, redistest.FreePort)
}

// StartOnPorts is Start on the ports that pickPort gives.
func StartOnPorts(ctx context.Context, o Options, pickPort func() (int, error)) (*Server, error) {
	e, err := findEngine(ctx)
	if err != nil {
		return nil, err
	}
	return e.start(ctx, o, pickPort)
}

// Ours are the ids of the containers that this package made, with their ends.
func Ours(ctx context.Context) (map[string]time.Time, *docker.Client, error) {
	e, err := findEngine(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := e.client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {expiryLabel}}, Context: ctx,
	})
	ours := map[string]time.Time{}
	for _, c := range list {
		at, _ := strconv.ParseInt(c.Labels[expiryLabel], 10, 64)
		ours[c.ID] = time.Unix(at, 0)
	}
	return ours, e.client, err
}
