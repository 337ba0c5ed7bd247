package endpoint_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
)

// TestADialIsLimited by the URL, however much time the context of the caller allows.
func TestADialIsLimited(t *testing.T) {
	u, err := endpoint.Parse("redis://h/0?dial_timeout=4s")
	require.NoError(t, err)
	d, err := u.Dialer(endpoint.Settings{NetDial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		deadline, limited := ctx.Deadline()
		require.True(t, limited)
		require.WithinDuration(t, time.Now().Add(4*time.Second), deadline, time.Second)
		return nil, errors.New("limited")
	}}, "%s")
	require.NoError(t, err)
	_, err = d.Dial(context.Background(), "tcp", "h:1")
	require.ErrorContains(t, err, "limited")
}

// A user without a password would not be sent, and the connection would act as the default user.
func TestAUserWithoutAPasswordIsRefused(t *testing.T) {
	for what, options := range map[string][]redis.DialOption{"no options": nil, "options": {redis.DialDatabase(0)}} {
		dialled := false
		d := endpoint.Dialer{
			Options:     options,
			Credentials: func(context.Context) (string, string, error) { return "app", "", nil },
			NetDial: func(context.Context, string, string) (net.Conn, error) {
				dialled = true
				return nil, net.ErrClosed
			},
		}
		_, err := d.Dial(t.Context(), "tcp", "h:1")
		require.EqualError(t, err, `no credentials for the connection: Credentials returned the user "app" without a password: return one, or no user`, what)
		require.False(t, dialled)
	}
}

// TestADialSaysThatCredentialsTookTooLong before its context ends, because the caller leaves then.
func TestADialSaysThatCredentialsTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := endpoint.Dialer{Credentials: func(ctx context.Context) (string, string, error) {
			<-ctx.Done()
			return "", "", ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := d.Dial(ctx, "tcp", "h:1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no credentials for the connection: ")
		require.Less(t, time.Since(began), time.Second)
	})
}

// piped returns d with connections in memory. f gets the server's end of each.
func piped(d endpoint.Dialer, f func(there net.Conn)) endpoint.Dialer {
	d.NetDial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go f(there)
		return here, nil
	}
	return d
}

// ofURL returns the Dialers of a URL, for servers and for their sentinels.
func ofURL(t *testing.T, text string) (d, sentinel endpoint.Dialer) {
	t.Helper()
	u, err := endpoint.Parse(text)
	require.NoError(t, err)
	d, err = u.Dialer(endpoint.Settings{}, "%s")
	require.NoError(t, err)
	return d, u.Sentinel(d)
}

// TestADialSaysWhatItsSettingsAre, and nothing that is meant for another server.
func TestADialSaysWhatItsSettingsAre(t *testing.T) {
	server, sentinel := ofURL(t, "redis-sentinel://u:p@h/3?master=m&sentinel_password=w&client_name=n")
	for name, c := range map[string]struct {
		to    endpoint.Dialer
		hears string
	}{
		"nothing":  {endpoint.Dialer{}, ""},
		"a URL":    {server, "AUTH u p CLIENT SETNAME n SELECT 3"},
		"sentinel": {sentinel, "AUTH w CLIENT SETNAME n"},
		"options":  {endpoint.Dialer{Options: []redis.DialOption{redis.DialPassword("old"), redis.DialDatabase(2)}}, "AUTH old SELECT 2"},
		"options and credentials": {endpoint.Dialer{
			Options:     []redis.DialOption{redis.DialUsername("v"), redis.DialPassword("old"), redis.DialDatabase(2)},
			Credentials: func(context.Context) (string, string, error) { return "", "new", nil },
		}, "AUTH new SELECT 2"},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string)
			conn, err := piped(c.to, func(there net.Conn) {
				var words []string
				answers := make(chan int, 10)
				go func() {
					for range answers {
						_, _ = there.Write([]byte("+OK\r\n"))
					}
				}()
				for lines := bufio.NewScanner(there); lines.Scan(); {
					switch lines.Text()[0] {
					case '*':
						answers <- 1
					case '$':
					default:
						words = append(words, lines.Text())
					}
				}
				close(answers)
				heard <- strings.Join(words, " ")
			}).Dial(t.Context(), "tcp", "h:1")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			require.Equal(t, c.hears, <-heard)
		})
	}
}

// TestADialHasTheTimeoutsOfItsURL: for an answer, for a write and as a whole.
func TestADialHasTheTimeoutsOfItsURL(t *testing.T) {
	silent := func(there net.Conn) { _, _ = io.Copy(io.Discard, there) }
	for text, c := range map[string]struct {
		server func(net.Conn)
		took   time.Duration
	}{
		"redis://h/1?read_timeout=1s&write_timeout=2s":                  {silent, time.Second},
		"redis://h/1?read_timeout=1s&write_timeout=2s&client_name=deaf": {func(net.Conn) {}, 2 * time.Second},
		"redis://h/1?read_timeout=1m&write_timeout=1m&dial_timeout=3s":  {silent, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := ofURL(t, text)
			began := time.Now()
			_, err := piped(d, c.server).Dial(t.Context(), "tcp", "h:1")
			require.Error(t, err)
			require.Equal(t, c.took, time.Since(began), text)
		})
	}
}

// TestSentinelsGetNoPasswordOfTheServers: they have one of their own, or none.
func TestSentinelsGetNoPasswordOfTheServers(t *testing.T) {
	for text, want := range map[string]string{
		"redis-sentinel://app:s3cret@h?master=m":                                           "",
		"redis-sentinel://app:s3cret@h?master=m&sentinel_password=w%2F":                    ":w/",
		"redis-sentinel://app:s3cret@h?master=m&sentinel_password=w&sentinel_user=watcher": "watcher:w",
	} {
		u, err := endpoint.Parse(text)
		require.NoError(t, err)
		d, err := u.Dialer(endpoint.Settings{}, "%s")
		require.NoError(t, err)
		user, password, err := d.Credentials(t.Context())
		require.NoError(t, err)
		require.Equal(t, "app:s3cret", user+":"+password)
		s := u.Sentinel(d)
		if want == "" {
			require.Nil(t, s.Credentials)
			continue
		}
		user, password, err = s.Credentials(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, user+":"+password)
	}
}
