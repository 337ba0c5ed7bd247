package redistest

import "context"

// Controller is what can be done to a Server that another package runs; the
// methods do what Server's say. See Custom.
type Controller interface {
	Pause() error
	Resume() error
	Kill() error
	Restart(ctx context.Context) error
	Stop() error
	Log() string
}

// Custom returns a Server of somebody's own kind at a TCP address, host:port,
// which c controls: what integration/redistest/container starts is one. name
// says what runs there. An empty password is none.
func Custom(kind Kind, name, addr, password string, c Controller) *Server {
	return &Server{kind: kind, network: "tcp", addr: addr, password: password, name: name, control: customController{c}}
}

// customController makes a controller of a Controller.
type customController struct{ Controller }

func (c customController) pause() error                      { return c.Pause() }
func (c customController) resume() error                     { return c.Resume() }
func (c customController) kill() error                       { return c.Kill() }
func (c customController) restart(ctx context.Context) error { return c.Restart(ctx) }
func (c customController) stop() error                       { return c.Stop() }
func (c customController) pid() int                          { return 0 }
func (c customController) log() string                       { return c.Log() }
