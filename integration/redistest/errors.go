package redistest

import "errors"

var (
	// ErrNoServer says that there is no redis-server program to start. A test
	// skips on it unless Required.
	ErrNoServer = errors.New("redistest: no redis-server on PATH")

	// ErrNotSupported says that this kind of Server, or this operating
	// system, has no such method: there are no signals on Windows, and no control
	// of an external server.
	ErrNotSupported = errors.New("redistest: not supported")

	// ErrNotRunning says that the server was killed or has died; Restart
	// brings it back.
	ErrNotRunning = errors.New("redistest: the server is not running")

	// ErrStopped says that Stop was called.
	ErrStopped = errors.New("redistest: the server was stopped")
)
