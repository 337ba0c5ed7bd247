package wire

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// Uptime asks how long the server of a lock has been up, and whether it was ever a replica.
func Uptime(name string) Call { return Call{Script: script.Uptime, Keys: 1, Args: list(name)} }

// State is the role of a server.
type State int64

const (
	Heir    State = 1 // a master that was a replica, or has loaded the file of another run
	Replica State = 2
)

// UptimeAnswer is the answer of uptime.
type UptimeAnswer struct {
	Up          time.Duration // in whole seconds
	Server      string        // the run's id
	Replication string        // its id
	State       State
}

// ReadUptime reads the answer of uptime.
func ReadUptime(reply any) (u UptimeAnswer, ok bool) {
	values, ok := reply.([]any)
	if !ok || len(values) != 4 {
		return u, false
	}
	seconds, ok1 := values[0].(int64)
	state, ok2 := values[3].(int64)
	id, err1 := redis.String(values[1], nil)
	replication, err2 := redis.String(values[2], nil)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return u, false
	}
	return UptimeAnswer{Up: time.Duration(seconds) * time.Second, Server: id, Replication: replication, State: State(state)}, true
}
