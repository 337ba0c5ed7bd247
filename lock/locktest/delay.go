package locktest

import "time"

// SetDelay makes the server slow. Each request is carried out d later, or up to 2*d later if other
// requests of the same connection are waiting. With d above Config.IOTimeout every call is carried
// out, but no answer comes in time. 0 ends the delay.
func (s *Server) SetDelay(d time.Duration) { s.redis.SetDelay(d) }
