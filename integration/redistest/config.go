package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

const (
	// EnvAddr names the environment variable that makes Auto use a server
	// that is already there: host:port, a redis:// URL, or the path of a unix
	// socket.
	EnvAddr = "REDIS_ADDR"

	// EnvRequire names the environment variable that turns "no redis-server
	// here" from a reason to skip into an error, when it is "1".
	EnvRequire = "WHEELLOCK_REQUIRE_REDIS"
)

// Required reports whether tests must not be skipped for want of a
// redis-server: WHEELLOCK_REQUIRE_REDIS=1.
func Required() bool { return os.Getenv(EnvRequire) == "1" }

// Kind says what a Server is.
type Kind string

const (
	External Kind = "external"  // somebody else's server: Connect
	Process  Kind = "process"   // a redis-server of our own: Start
	Mini     Kind = "miniredis" // miniredis over TCP, real time: StartMini
	Virtual  Kind = "virtual"   // miniredis in memory, time of the caller's bubble: StartVirtual
)

// Options are the settings of Start. The zero value is an empty server on a
// free loopback port that saves nothing and wants no password.
type Options struct {
	// Binary is the server's program, looked up on PATH; "redis-server" if
	// empty. Others that take its arguments, like valkey-server, will do.
	Binary string

	// Args are added to the command line after the defaults, so that they
	// win: "--maxmemory", "100mb", "--appendonly", "yes". The settings that
	// Start needs for itself are refused: --port, --bind, --unixsocket, --dir,
	// --logfile, --daemonize and --requirepass.
	Args []string

	// UnixSocket makes the server listen on a unix socket only.
	UnixSocket bool

	// Dir is the server's working directory, for files to be found or left
	// there; it is not removed. If empty, it is a temporary one that Stop
	// removes.
	Dir string

	// Password is asked of every client, and used by Dial, Pool and URL.
	Password string

	// Log receives all that the server prints. The end of it is kept for
	// errors and Server.Log in any case.
	Log io.Writer

	// Sentinel is the configuration of a sentinel, which it then keeps in a
	// file of its own; empty for a server.
	Sentinel string
}

// reserved are the settings that decide where the server is found.
var reserved = []string{"--port", "--bind", "--unixsocket", "--dir", "--logfile", "--daemonize", "--requirepass"}

// Validate returns the faults of the options. Start calls it first.
func (o Options) Validate() error {
	var errs []error
	for _, arg := range o.Args {
		// redis-server takes "--port 1" as one argument too.
		name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(arg)), " ")
		if slices.Contains(reserved, name) {
			errs = append(errs, fmt.Errorf("redistest: Options.Args has %s, which Start sets by itself", name))
		}
	}
	return errors.Join(errs...)
}

// MiniOptions are the settings of StartMini and StartVirtual.
type MiniOptions memredis.Config
