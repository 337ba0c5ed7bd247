package resp

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADeadAddressOfANameCostsAQuarterOfASecond, and one that refuses costs nothing.
func TestADeadAddressOfANameCostsAQuarterOfASecond(t *testing.T) {
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		ips  []string
		to   string
		took time.Duration
		err  error
	}{
		"the first answers":     {[]string{"alive 1", "alive 2"}, "alive 1", 0, nil},
		"the first is dead":     {[]string{"dead 1", "alive 2", "alive 3"}, "alive 2", between, nil},
		"two are dead":          {[]string{"dead 1", "dead 2", "alive 3"}, "alive 3", 2 * between, nil},
		"one refuses":           {[]string{"refuses 1", "alive 2"}, "alive 2", 0, nil},
		"dead and refuses":      {[]string{"dead 1", "refuses 2", "alive 3"}, "alive 3", 2 * between, nil},
		"the slow one is first": {[]string{"slow 1", "dead 2"}, "slow 1", 300 * time.Millisecond, nil},
		"the slow one is late":  {[]string{"slow 1", "alive 2"}, "alive 2", between, nil},
		"all refuse":            {[]string{"refuses 1", "refuses 2"}, "", 0, refused},
		"all are dead":          {[]string{"dead 1", "dead 2"}, "", 5 * time.Second, context.DeadlineExceeded},
		"the only one is dead":  {[]string{"dead 1"}, "", 5 * time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				open := map[string]net.Conn{} // the other ends
				n := names{
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
				for host, there := range open {
					_, err := there.Read(make([]byte, 1))
					require.Error(t, err, "%s is closed", host)
				}
				require.True(t, tc.to == "" || open[tc.to] != nil)
			})
		})
	}
}
