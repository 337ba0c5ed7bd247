package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Auto returns the best server that is available: the one at REDIS_ADDR if that
// is set, else a redis-server process, else miniredis over TCP. Kind and
// String say which. A REDIS_ADDR that does not answer is an error, and so is
// a missing redis-server if Required. Otherwise the tests would run on another
// server than was asked for, and nobody would notice.
func Auto(ctx context.Context) (*Server, error) {
	if addr := os.Getenv(EnvAddr); addr != "" {
		s, err := Connect(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("%w (from %s)", err, EnvAddr)
		}
		return s, nil
	}
	s, err := Start(ctx, Options{})
	if errors.Is(err, ErrNoServer) && !Required() {
		return StartMini(MiniOptions{})
	}
	return s, err
}

// Connect returns the server at addr, which somebody else runs: host:port, a
// redis:// or rediss:// URL, or the path of a unix socket. It has answered a
// PING when Connect returns. Its data may be dear to somebody: use keys of
// your own, and never FLUSHALL.
func Connect(ctx context.Context, addr string) (*Server, error) {
	s := &Server{kind: External, network: "tcp", addr: addr, name: "external Redis", control: external{}}
	switch {
	case strings.HasPrefix(addr, "redis://"), strings.HasPrefix(addr, "rediss://"):
		u, err := url.Parse(addr)
		if err != nil {
			// url.Error repeats the whole URL, password and all.
			return nil, errors.New("redistest: connect: the redis:// URL cannot be parsed")
		}
		s.addr, s.rawURL = u.Host, addr
	case strings.HasPrefix(addr, "unix://"):
		u, err := url.Parse(addr)
		if err != nil {
			return nil, errors.New("redistest: connect: the unix:// URL cannot be parsed")
		}
		s.network, s.addr = "unix", u.Path
		s.password, _ = u.User.Password()
	case strings.HasPrefix(addr, "/"):
		s.network = "unix"
	default:
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("redistest: connect: %q is no host:port, redis:// URL or socket path", addr)
		}
	}
	c, err := s.DialContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("redistest: connect to Redis at %s: %w", s.addr, err)
	}
	defer c.Close()
	if _, err := redis.DoContext(c, ctx, "PING"); err != nil {
		return nil, fmt.Errorf("redistest: connect to Redis at %s: %w", s.addr, err)
	}
	return s, nil
}

// external controls nothing.
type external struct{}

func (external) pause() error                  { return errExternal("pause") }
func (external) resume() error                 { return errExternal("resume") }
func (external) kill() error                   { return errExternal("kill") }
func (external) restart(context.Context) error { return errExternal("restart") }
func (external) stop() error                   { return nil }
func (external) pid() int                      { return 0 }
func (external) log() string                   { return "" }

func errExternal(what string) error {
	return fmt.Errorf("%w: %s of an external server", ErrNotSupported, what)
}
