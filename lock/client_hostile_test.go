package lock_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// hostile are answers that end a process, or fill its memory, where they are believed.
var hostile = []string{
	"*4000000000\r\n",
	"$1099511627776\r\n",
	"*99999999999999999999\r\n",
	strings.Repeat("*1\r\n", 10_000),
	"+" + strings.Repeat("x", 1<<20),
	"-ERR " + strings.Repeat("x", 1<<20),
	"*60\r\n" + strings.Repeat("*1000000\r\n", 60),
	"%1000000000\r\n",
	"HTTP/1.1 400 Bad Request\r\n\r\n",
}

// TestAHostileAnswerEndsNoProcess: whatever is asked, and whatever is said then, the client
// gives the connection up and goes on with another one.
func TestAHostileAnswerEndsNoProcess(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for _, command := range []string{
		"AUTH", "SELECT", "TIME", "EVALSHA", "acquire", "guard", "inspect", "renew", "release", "fair_take", "rw_read", "SUBSCRIBE",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			other, err := lock.Open("redis://"+s.Addr()+"/3", lock.Config{})
			require.NoError(t, err)
			defer fixture.CloseNow(other)
			for _, text := range hostile {
				var said atomic.Bool
				p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
					switch {
					case (c.Script == command || c.Args[0] == command) && !said.Swap(true):
						return faultproxy.Answer(faultproxy.Raw(text))
					case c.Args[0] == "AUTH": // the server has no password
						return faultproxy.Answer("OK")
					}
					return faultproxy.Pass
				})
				c, err := lock.Open("redis://:secret@"+p.Addr()+"/3", lock.Config{Lease: 3 * time.Second})
				require.NoError(t, err)
				bounded.Until(t, func() bool { return useAll(t, c, other, command == "renew") == nil && said.Load() })
				fixture.CloseNow(c)
				p.Close()
			}
		})
	}
}

// useAll goes through what a client asks, a renewal among them if that is wanted. It waits
// for what another client holds.
func useAll(t *testing.T, c, other *lock.Client, renewed bool) error {
	ctx := bounded.Context(t)
	if _, err := other.Mutex(t.Name()).LockFor(ctx, lock.MinLease); err != nil {
		return err
	}
	m := c.Mutex(t.Name())
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	_, guarded := held.Guard(ctx, "SET", []string{t.Name() + " beside"}, "1")
	_, inspected := m.Inspect(ctx)
	before := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool { return !renewed || c.Stats().Renewal.Renewed > before || held.Err() != nil })
	errs := []error{guarded, inspected, held.Unlock(ctx)}
	for _, m := range []*lock.Mutex{c.FairMutex(t.Name() + " fair"), c.RWMutex(t.Name() + " rw").Reader()} {
		held, err := m.Lock(ctx)
		if err == nil {
			err = held.Unlock(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
