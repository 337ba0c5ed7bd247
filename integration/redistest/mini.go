package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

// StartMini starts miniredis behind a TCP listener on a free loopback port.
// Its TTLs move with the real clock.
func StartMini(o MiniOptions) (*Server, error) {
	m, err := memredis.Listen(memredis.Config(o))
	if err != nil {
		return nil, fmt.Errorf("redistest: start miniredis: %w", err)
	}
	return &Server{kind: Mini, network: "tcp", addr: m.Addr(), password: o.Password, name: "miniredis", control: mini{m}}, nil
}

// StartVirtual starts miniredis behind in-memory connections, which only Dial
// and Pool of the Server make. Its TTLs move with time.Now. Called within a
// testing/synctest bubble, all of it belongs to the bubble and its virtual
// time; Stop, and closing the connections and pools made from it, leave no
// goroutine there.
func StartVirtual(o MiniOptions) (*Server, error) {
	m, err := memredis.Start(memredis.Config(o))
	if err != nil {
		return nil, fmt.Errorf("redistest: start miniredis: %w", err)
	}
	return &Server{
		kind: Virtual, network: "virtual", addr: "virtual", password: o.Password,
		name: "miniredis in virtual time", control: mini{m}, dialNet: mini{m}.dial,
	}, nil
}

// mini is the controller of a miniredis.
type mini struct{ server *memredis.Server }

func (m mini) pause() error                      { return wrapMiniError(m.server.Pause()) }
func (m mini) resume() error                     { return wrapMiniError(m.server.Resume()) }
func (m mini) kill() error                       { return wrapMiniError(m.server.Kill()) }
func (m mini) restart(ctx context.Context) error { return wrapMiniError(m.server.Restart(ctx)) }
func (m mini) stop() error                       { return wrapMiniError(m.server.Stop()) }
func (m mini) pid() int                          { return 0 }
func (m mini) log() string                       { return "" }

func (m mini) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := m.server.DialNet(ctx, network, addr)
	return conn, wrapMiniError(err)
}

// wrapMiniError turns errors of memredis into errors of this package.
func wrapMiniError(err error) error {
	switch {
	case errors.Is(err, memredis.ErrNotRunning):
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	case errors.Is(err, memredis.ErrStopped):
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}
