package run

import (
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

// dialMasters opens a connection to each master that shares no code with holders.
func dialMasters(t *holders.Target) (conns, error) {
	var all conns
	for _, srv := range t.Servers() {
		conn, err := srv.Dial()
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, conn)
	}
	return all, nil
}

// conns are one connection to each master, by lane.
type conns []redis.Conn

func (c conns) close() {
	for _, conn := range c {
		_ = conn.Close()
	}
}

func (c conns) flush() error {
	var errs []error
	for _, conn := range c {
		errs = append(errs, conn.Flush())
	}
	return errors.Join(errs...)
}
