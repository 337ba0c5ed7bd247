package redistest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Timeouts of connections from Dial and Pool. redigo's own default is to wait
// for ever, which turns a paused server into a hung test.
const (
	connectTimeout = 2 * time.Second
	ioTimeout      = 5 * time.Second
)

// A Server is one Redis server to test against. It is safe for concurrent use.
type Server struct {
	// immutable
	kind     Kind
	network  string
	addr     string
	password string
	name     string                                                            // for String: what runs here
	rawURL   string                                                            // external only: the URL it was given as
	dialNet  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: the network's own
	control  controller
}

// controller pauses, kills and restarts a server. Each kind of server has its own.
type controller interface {
	pause() error
	resume() error
	kill() error
	restart(ctx context.Context) error
	stop() error
	pid() int
	log() string
}

// Kind says what the server is.
func (s *Server) Kind() Kind { return s.kind }

// Network is "tcp" or "unix", and "virtual" for a virtual server, which only
// Dial and Pool reach.
func (s *Server) Network() string { return s.network }

// Addr is host:port, the path of a unix socket, or "virtual". It is the same
// after Restart.
func (s *Server) Addr() string { return s.addr }

// URL is the server's address as a redis:// URL with the password in it, for
// redis.DialURL and child processes, or unix:// for a socket, which DialURL
// does not take.
func (s *Server) URL() string {
	if s.rawURL != "" {
		return s.rawURL
	}
	u := url.URL{Scheme: "redis", Host: s.addr}
	if s.network == "unix" {
		u = url.URL{Scheme: "unix", Path: s.addr}
	}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// String says in a few words what the server is and where.
func (s *Server) String() string {
	if s.kind == Virtual {
		return s.name
	}
	return s.name + " at " + s.addr
}

// Dial connects and gives the password. The defaults, a connect timeout of 2 s
// and read and write timeouts of 5 s, come before opts and yield to them.
func (s *Server) Dial(opts ...redis.DialOption) (redis.Conn, error) {
	return s.DialContext(context.Background(), opts...)
}

// DialContext is Dial that gives up connecting when ctx ends.
func (s *Server) DialContext(ctx context.Context, opts ...redis.DialOption) (redis.Conn, error) {
	all := []redis.DialOption{
		redis.DialConnectTimeout(connectTimeout),
		redis.DialReadTimeout(ioTimeout),
		redis.DialWriteTimeout(ioTimeout),
	}
	if s.password != "" {
		all = append(all, redis.DialPassword(s.password))
	}
	if s.dialNet != nil {
		all = append(all, redis.DialContextFunc(s.dialNet))
	}
	all = append(all, opts...)
	if s.rawURL != "" {
		return redis.DialURLContext(ctx, s.rawURL, all...)
	}
	return redis.DialContext(ctx, s.network, s.addr, all...)
}

// NetDial returns the function that connects to a Virtual server, or nil for any other.
func (s *Server) NetDial() func(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.dialNet
}

// Pool returns a new pool of at most maxActive connections; 0 means any number. Get
// waits for a free connection. The caller closes the pool.
func (s *Server) Pool(maxActive int) *redis.Pool {
	idle := maxActive
	if idle == 0 {
		idle = 64
	}
	return &redis.Pool{
		DialContext: func(ctx context.Context) (redis.Conn, error) { return s.DialContext(ctx) },
		MaxIdle:     idle,
		MaxActive:   maxActive,
		Wait:        true,
	}
}

// Info returns the fields of a section of INFO, for instance "server" or "memory",
// by key. The empty section is INFO without an argument.
func (s *Server) Info(section string) (map[string]string, error) {
	c, err := s.Dial()
	if err != nil {
		return nil, fmt.Errorf("redistest: info: %w", err)
	}
	defer c.Close()
	return info(c, section)
}

func info(c redis.Conn, section string) (map[string]string, error) {
	var args []any
	if section != "" {
		args = append(args, section)
	}
	text, err := redis.String(c.Do("INFO", args...))
	if err != nil {
		return nil, fmt.Errorf("redistest: info %s: %w", section, err)
	}
	return InfoFields(text), nil
}

// InfoFields are the fields of a reply to INFO, by key.
func InfoFields(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(key, "#") {
			m[key] = value
		}
	}
	return m
}

// PID is the id of the server's process, changed by Restart; 0 if it is not a
// process of ours, or not running.
func (s *Server) PID() int { return s.control.pid() }

// Log is the end of what the server has printed, at most 16 KiB; empty if it
// is not a process of ours.
func (s *Server) Log() string { return s.control.log() }

// Pause stops the server without ending it (SIGSTOP): connections stay open,
// new ones are accepted, nothing is answered, and TTLs run on. The process has
// stopped when Pause returns. ErrNotSupported on Windows and for an external
// server.
func (s *Server) Pause() error { return s.control.pause() }

// Resume ends Pause (SIGCONT). Requests that were sent meanwhile are then executed.
func (s *Server) Resume() error { return s.control.resume() }

// Kill ends the server at once (SIGKILL), paused or not, and returns when it
// is gone. Data that was not saved is lost.
func (s *Server) Kill() error { return s.control.kill() }

// Restart starts the server again on the same address and in the same
// directory, and returns once it answers. A server that still runs is ended
// first, in good order. When Restart fails the server is down, and Restart
// may be tried again.
func (s *Server) Restart(ctx context.Context) error { return s.control.restart(ctx) }

// Stop ends the server, in good order if it can, and by force after 3 s, and
// removes its directory if that was made by Start. It is safe to call twice,
// and for a server that is paused or dead. An external server is left alone.
func (s *Server) Stop() error { return s.control.stop() }
