package main

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// unlock is the subcommand unlock.
func (p *program) unlock(args []string) (int, error) {
	var s servers
	fs := newFlags("unlock -force [flags] NAME", "Takes the lock NAME away from its holder.")
	force := fs.Bool("force", false, "required: the holder notices only at its next renewal, so two may work at once until then")
	name, err := p.parseNamed(fs, &s, args)
	if err != nil {
		return 0, err
	}
	if !*force {
		return 0, usagef("unlock: this takes the lock %q away from its holder. The holder notices only at its next renewal, within a third of the lease, or if it does not renew at the end of the lease, "+
			"so two may work at once until then. \"wheellock inspect %[1]s\" says who has the lock. To take it away, write wheellock unlock -force %[1]s", s.prefix+name)
	}
	return 0, s.withLock(name, func(ctx context.Context, client *lock.Client, v view) error {
		m := client.Mutex(name)
		switch { // each kind wakes its waiters
		case v.Mode == "foreign":
			return &statusError{statusNotAcquired, fmt.Sprintf("%s: another library has the lock, and only it can release it", printable(v.Name))}
		case v.Mode == "read" || v.Mode == "write":
			m = client.RWMutex(name).Writer() // it also deletes the readers' keys
		case s.hasQueue(ctx, v.Name):
			m = client.FairMutex(name)
		}
		was, err := m.ForceUnlock(ctx)
		if err != nil {
			return err
		}
		said := "unlocked"
		if !was {
			said = "was free"
		}
		said = printable(v.Name) + ": " + said
		if err := p.print(said + "\n"); err != nil { // the lock is gone all the same
			return &statusError{statusOf(err), fmt.Sprintf("%s, but %v", said, err)}
		}
		return nil
	})
}

// hasQueue reports whether a client waits for name as a FairMutex. Only a FairMutex wakes such
// a waiter. If the user has no right to read the queue, hasQueue returns false, and the waiters
// poll a little later.
func (s *servers) hasQueue(ctx context.Context, name string) bool {
	names, dial, err := s.masters(ctx)
	return err == nil && anyHasQueue(ctx, names, dial, name)
}

// anyHasQueue asks all servers at once and takes the first length. Only the server that has the key's slot
// tells a length, so another server that is down delays nothing. While the slot is moved and the server has
// no such key, only the server to which the slot goes may tell one.
func anyHasQueue(ctx context.Context, servers []string, dial func(ctx context.Context, name string) (redis.Conn, error), name string) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lengths := make(chan int, len(servers)) // -1 if the server has told none
	for _, server := range servers {
		go func() {
			length := -1
			if conn, err := dial(ctx, server); err == nil {
				length = queueLength(ctx, conn, beside("redisson_lock_queue", name))
				conn.Close()
			}
			lengths <- length
		}()
	}
	for range servers {
		if length := <-lengths; length >= 0 {
			return length > 0
		}
	}
	return false
}

// queueLength returns the length of a list, or -1 if the server does not know it. A server to which the
// slot is being moved answers after ASKING. If it has no such list, the other server may have it.
func queueLength(ctx context.Context, conn redis.Conn, key string) int {
	n, err := redis.Int(redis.DoContext(conn, ctx, "LLEN", key))
	if err == nil {
		return n
	}
	if isRefusal(err) {
		_, _ = redis.DoContext(conn, ctx, "ASKING") // if it is refused, so is LLEN again
		if n, err = redis.Int(redis.DoContext(conn, ctx, "LLEN", key)); err == nil && n > 0 {
			return n
		}
	}
	return -1
}
