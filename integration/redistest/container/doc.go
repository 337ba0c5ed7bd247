// Package container starts Redis in containers, for the tests of integration
// alone: it brings ory/dockertest. It is redistest for those who want another
// Redis than the one on this machine, or a server with a kernel's own walls
// around it; what it starts is a *redistest.Server of the kind Container.
//
//	if err := container.Available(ctx); err != nil && !container.Required() {
//		t.Skip(err)
//	}
//	srv, err := container.Start(ctx, container.Options{})
//	require.NoError(t, err)
//	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
//
// Sentinels and a Cluster of containers are those of redistest, started by this
// package: redistest.ClusterOptions{Start: container.Start}.
//
// # The image
//
// It is the one that WHEELLOCK_REDIS_IMAGE names, "redis:7" if it is not set:
// any that has a redis-server on its PATH, so those of Redis 6.2, 7, 8 and
// Valkey. One that the engine has is used as it is; only if it has none is it
// pulled. Where there is no registry .ci/run makes an image of this machine's
// own redis-server. The entry point of the image is left out, so that all
// images behave alike.
//
// # The address
//
// On a Linux machine with an engine of its own a container shares the
// machine's network and listens on a free port of 127.0.0.1. So its address is
// the same for clients and for other containers, which Sentinel and Cluster
// need, and it is the same after Restart, which a container's own IP address is
// not. Any other engine (Docker Desktop, rootless, another machine) publishes
// the port instead; that is enough for a single server, and replicas, Sentinels
// and Clusters are refused with redistest.ErrNotSupported.
//
// # What is left behind
//
// Stop removes the container with all that is in it; Start leaves none if it
// fails. The engine itself ends a container that is older than two hours, so
// that a killed test does not leave it running for ever, and the next Start
// removes what is left of it. Files that the server writes live in the
// container and survive Restart.
//
// # Goroutines
//
// A running container has one goroutine, which waits for the engine's answer
// that it has ended; Kill and Stop wait for it.
package container
