package network

import (
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/sender"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
)

// Routed is the Network of the servers that a pool or a Topology leads to.
type Routed struct {
	*sender.Routed
	router  *servers.Router // immutable
	refused *atomic.Uint64  // batches of renewals
}

var _ Network = (*Routed)(nil)

// Connect returns the Network of the servers of cfg. If the Topology is a Connector, Connect
// returns the Network of the Connector. It does no I/O. An error says that the watchdog is closed.
func Connect(cfg Config) (Network, error) {
	if other, ok := cfg.Servers.Topology.(Connector); ok {
		return other.Connect(cfg)
	}
	to := cfg.Servers
	to.Moved = cfg.Moved
	refused := new(atomic.Uint64)
	to.Opened = func(s *servers.Server) (servers.Attachment, error) { return newLane(&cfg, s, refused) }
	router, err := servers.New(to)
	if err != nil {
		return nil, err
	}
	return &Routed{Routed: sender.New(router, cfg.Closed), router: router, refused: refused}, nil
}

// Refused implements Network.
func (n *Routed) Refused() uint64 { return n.Routed.Refused() + n.refused.Load() }

// Server implements Network.
func (n *Routed) Server(key string) Server { return server{n.router.Server(key)} }

// Publisher implements Network.
func (n *Routed) Publisher(key string) any { return n.router.Publisher(key) }

// Channel implements Network.
func (n *Routed) Channel(key, plain, sharded string) any {
	return n.router.Channel(key, plain, sharded)
}

// Router implements Network.
func (n *Routed) Router() *servers.Router { return n.router }

// Close implements Network.
func (n *Routed) Close(why error) { n.router.Close(why) }

// server is a Server of a Routed.
type server struct{ *servers.Server }

// Ahead implements Server.
func (s server) Ahead() time.Duration {
	ahead, _, _ := s.Clock()
	return ahead
}

// Lane implements Server.
func (s server) Lane() Lane {
	if l := laneOf(s.Server); l != nil {
		return l
	}
	return nil
}
