package resp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADeadAddressOfANameCostsAQuarterOfASecond. An address that refuses costs nothing.
func TestADeadAddressOfANameCostsAQuarterOfASecond(t *testing.T) {
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		ips  []string
		to   string
		took time.Duration
		err  error
	}{
		"the first answers":     {[]string{"alive 1", "alive 2"}, "alive 1", 0, nil},
		"the first is dead":     {[]string{"dead 1", "alive 2", "alive 3"}, "alive 2", nextDialAfter, nil},
		"two are dead":          {[]string{"dead 1", "dead 2", "alive 3"}, "alive 3", 2 * nextDialAfter, nil},
		"one refuses":           {[]string{"refuses 1", "alive 2"}, "alive 2", 0, nil},
		"dead and refuses":      {[]string{"dead 1", "refuses 2", "alive 3"}, "alive 3", 2 * nextDialAfter, nil},
		"the slow one is first": {[]string{"slow 1", "dead 2"}, "slow 1", 300 * time.Millisecond, nil},
		"the slow one is late":  {[]string{"slow 1", "alive 2"}, "alive 2", nextDialAfter, nil},
		"all refuse":            {[]string{"refuses 1", "refuses 2"}, "", 0, refused},
		"all are dead":          {[]string{"dead 1", "dead 2"}, "", 5 * time.Second, context.DeadlineExceeded},
		"the only one is dead":  {[]string{"dead 1"}, "", 5 * time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				open := map[string]net.Conn{} // the other ends
				n := nameDialer{
					limit: 5 * time.Second,
					dial: func(ctx context.Context, network, address string) (net.Conn, error) {
						host, port, err := net.SplitHostPort(address)
						require.NoError(t, err)
						require.Equal(t, "6379", port)
						switch host[0] {
						case 'r':
							return nil, refused
						case 'd':
							<-ctx.Done()
							return nil, ctx.Err()
						case 's':
							time.Sleep(300 * time.Millisecond) // whatever ctx says
						}
						here, there := net.Pipe()
						mu.Lock()
						defer mu.Unlock()
						open[host] = there
						return here, nil
					},
					lookup: func(_ context.Context, host string) ([]string, error) {
						require.Equal(t, "redis.example", host)
						return tc.ips, nil
					},
				}
				began := time.Now()
				conn, err := n.DialContext(t.Context(), "tcp", "redis.example:6379")
				require.Equal(t, tc.took, time.Since(began))
				require.ErrorIs(t, err, tc.err)
				time.Sleep(time.Second)
				if err == nil {
					require.NoError(t, conn.Close())
				}
				mu.Lock()
				defer mu.Unlock()
				for host, there := range open {
					_, err := there.Read(make([]byte, 1))
					require.Error(t, err, "%s is closed", host)
				}
				require.True(t, tc.to == "" || open[tc.to] != nil)
			})
		})
	}
}

// TestADialOfAnAddressIsLimited, even if its context has no deadline.
func TestADialOfAnAddressIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nameDialer{limit: time.Second, dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		began := time.Now()
		_, err := n.DialContext(t.Context(), "tcp", "192.0.2.1:1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = n.DialContext(ctx, "tcp", "192.0.2.1:1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second+time.Minute, time.Since(began))
	})
}

// TestWhichAddressesOfANameAreDialled, and in which order they count.
func TestWhichAddressesOfANameAreDialled(t *testing.T) {
	all := make([]string, maxAddresses+4)
	for i := range all {
		all[i] = fmt.Sprint("dead ", i)
	}
	for name, tc := range map[string]struct {
		network, address string
		ips              []string
		lookup           error
		within           time.Duration // the caller waits for so long
		dialled          []string
		says             string
	}{
		"a name":                      {ips: []string{"fails 1", "fails 2"}, dialled: []string{"fails 1:1", "fails 2:1"}, says: "fails 1:1"},
		"an address":                  {address: "192.0.2.1:1", dialled: []string{"192.0.2.1:1"}},
		"an address of IPv6":          {address: "[::1]:1", dialled: []string{"[::1]:1"}},
		"a socket":                    {network: "unix", address: "h:1", dialled: []string{"h:1"}},
		"no host":                     {address: ":1", dialled: []string{":1"}},
		"no port":                     {address: "h", dialled: []string{"h"}},
		"a name that nobody knows":    {lookup: errors.New("no such host"), ips: []string{"fails 1"}, dialled: []string{"h:1"}},
		"a name without an address":   {dialled: []string{"h:1"}},
		"many":                        {ips: all, within: time.Minute, dialled: all[:maxAddresses]},
		"the caller leaves":           {ips: []string{"dead 1", "fails 2"}, within: nextDialAfter / 2, dialled: []string{"dead 1:1"}},
		"the caller leaves a deaf":    {ips: []string{"deaf 1", "fails 2"}, within: nextDialAfter / 2, dialled: []string{"deaf 1:1"}},
		"the dead one ends with them": {ips: []string{"dead 1", "alive 2"}, within: time.Minute, dialled: []string{"dead 1:1", "alive 2:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var dialled []string
				var running atomic.Int32
				n := nameDialer{
					limit: time.Minute,
					dial: func(ctx context.Context, _, address string) (net.Conn, error) {
						mu.Lock()
						dialled = append(dialled, address)
						mu.Unlock()
						running.Add(1)
						defer running.Add(-1)
						switch {
						case strings.HasPrefix(address, "dead"):
							<-ctx.Done()
						case strings.HasPrefix(address, "deaf"):
							time.Sleep(2 * nextDialAfter)
						case strings.HasPrefix(address, "alive"):
							here, _ := net.Pipe()
							return here, nil
						}
						return nil, errors.New(address)
					},
					lookup: func(context.Context, string) ([]string, error) { return tc.ips, tc.lookup },
				}
				ctx := context.Background()
				if tc.within > 0 {
					limited, cancel := context.WithTimeout(ctx, tc.within)
					defer cancel()
					ctx = limited
				}
				began := time.Now()
				conn, err := n.DialContext(ctx, cmp.Or(tc.network, "tcp"), cmp.Or(tc.address, "h:1"))
				if err == nil {
					require.NoError(t, conn.Close())
					synctest.Wait()
					require.Equal(t, nextDialAfter, time.Since(began))
				}
				require.LessOrEqual(t, time.Since(began), max(tc.within, 2*nextDialAfter))
				if tc.says != "" {
					require.EqualError(t, err, tc.says)
				}
				time.Sleep(time.Second)
				require.Zero(t, running.Load(), "the others have ended")
				require.Len(t, dialled, len(tc.dialled))
				for i, address := range dialled {
					require.Contains(t, address, tc.dialled[i])
				}
			})
		})
	}
}
