// Package container starts Redis in containers, for the tests of integration:
// to test another Redis than the one on this machine, or a server that the kernel
// isolates from this machine. It starts *redistest.Servers of the kind Container. It
// imports ory/dockertest.
//
// For Sentinels and a Cluster of containers, redistest starts its servers with
// this package: redistest.ClusterOptions{Start: container.Start}.
//
// # The image
//
// WHEELLOCK_REDIS_IMAGE names the image; the default is "redis:7". Any image with a
// redis-server on its PATH works, such as images of Redis 6.2, 7, 8 and Valkey. If
// the engine has the image, it is used as it is; otherwise it is pulled. Where
// there is no registry, .ci/run makes an image of this machine's own
// redis-server. The entry point of the image is not used, so all images behave
// alike.
//
// # The address
//
// A container shares the machine's network and listens on a free port of
// 127.0.0.1. So clients and other containers use the same address, which
// Sentinel and Cluster need, and the address is the same after Restart. The
// engine must run on this machine: an engine of Docker Desktop or of another
// machine is not used.
//
// # After a test
//
// Stop removes the container with its files. If Start fails it leaves no
// container. Files that the server writes are in the container and survive
// Restart. If a test is killed, the engine ends its container after two hours,
// and the next Start removes the container.
//
// # Goroutines
//
// A running container has one goroutine, which waits for the engine to say that
// the container has ended. Kill and Stop wait for it.
package container
