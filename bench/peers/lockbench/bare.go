package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
	"github.com/wheellock/wheellock/lock/script"
)

// measureBare measures the upper bound for a client: it sends only wheellock's two scripts, with the usual
// arguments. It has two connections with a goroutine each, and together run.N pairs in flight. A pair takes
// as long as its pipeline. If limited is true, every acquisition has a time limit, as in the client. Then
// the server asks for its time.
func measureBare(run rows.Run, limited bool) result {
	goroutines := min(2, run.N)
	depth := run.N / goroutines
	return repeat(run, goroutines, depth, func(g int) func(i int) error {
		conn := must(redis.Dial("tcp", *addr))
		load(conn, script.Acquire)
		load(conn, script.Release)
		names, fields := make([]string, depth), make([]string, depth)
		mine, seq := prefix+strconv.Itoa(g)+":", 0
		return func(i int) error {
			now, limit := time.Now(), int64(0)
			least := now.Unix() << 20
			if limited {
				limit = now.Add(time.Second).UnixMilli()
			}
			for k := range depth {
				seq++
				n := strconv.Itoa(seq)
				names[k], fields[k] = mine+n, clientID+":"+n+":"+n
				err := conn.Send("EVALSHA", script.Acquire.SHA(), 2, names[k], "wheellock_token", fields[k], lease.Milliseconds(), least, limit)
				if err != nil {
					return err
				}
			}
			err := answers(conn, depth, func(reply any) bool {
				pair, ok := reply.([]any)
				return ok && len(pair) == 2 && pair[0] == int64(1)
			})
			if err != nil {
				return err
			}
			for k := range depth {
				err := conn.Send("EVALSHA", script.Release.SHA(), 1, names[k], fields[k],
					"redisson_lock__channel:{"+names[k]+"}")
				if err != nil {
					return err
				}
			}
			return answers(conn, depth, func(reply any) bool { return reply == int64(1) })
		}
	})
}

const clientID = "01234567-89ab-4cde-8f01-23456789abcd"

func load(conn redis.Conn, s *script.Script) { must(conn.Do("SCRIPT", "LOAD", s.Text())) }

func answers(conn redis.Conn, n int, right func(reply any) bool) error {
	if err := conn.Flush(); err != nil {
		return err
	}
	for range n {
		reply, err := conn.Receive()
		if err != nil {
			return err
		}
		if !right(reply) {
			return fmt.Errorf("unexpected answer %v", reply)
		}
	}
	return nil
}
