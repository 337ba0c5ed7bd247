package memredis

import "time"

// SetDelay makes the server slow. A request is carried out d later, or up to 2*d later if other
// requests of the same connection are waiting. The delay also applies to new connections and after
// Restart. A d of 0 or less ends the delay for requests that are sent from then on.
func (s *Server) SetDelay(d time.Duration) { s.delay.Store(int64(d)) }

// slow waits for d, or until the gate is closed.
func (g *gate) slow(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.ended:
	}
}
