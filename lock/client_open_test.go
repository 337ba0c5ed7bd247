package lock_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// lockBy takes a lock through a client that Open makes, and returns its error.
func lockBy(t *testing.T, url, name string) error {
	t.Helper()
	c, err := lock.Open(url, lock.Config{Lease: 10 * time.Second})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	held, err := c.Mutex(name).TryLock(ctx)
	if err != nil {
		return err
	}
	return held.Unlock(ctx)
}

func TestOpenReachesTheServerOfItsURL(t *testing.T) {
	s := onRedis(t)
	require.NoError(t, lockBy(t, "redis://"+s.Addr(), t.Name()))

	// The lock is in the database of the URL.
	c, err := lock.Open("redis://"+s.Addr()+"/3?dial_timeout=2s&read_timeout=2s&write_timeout=500ms", lock.Config{})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	held, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
	require.NoError(t, err)
	require.False(t, fixture.Exists(t, s, t.Name()))
	conn := fixture.Dial(t, s)
	_, err = conn.Do("SELECT", 3)
	require.NoError(t, err)
	n, err := conn.Do("EXISTS", t.Name())
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.NoError(t, held.Unlock(context.Background()))

	t.Run("users and passwords are percent-encoded", func(t *testing.T) {
		fixture.Needs(t, redistest.ChannelRights)
		fixture.Do(t, s, "ACL", "SETUSER", "u@ser", "on", ">p@ss:w/rd#", "~*", "&*", "+@all")
		defer fixture.Do(t, s, "ACL", "DELUSER", "u@ser")
		require.NoError(t, lockBy(t, fmt.Sprintf("redis://u%%40ser:p%%40ss%%3Aw%%2Frd%%23@%s/0", s.Addr()), t.Name()))
		require.ErrorContains(t, lockBy(t, fmt.Sprintf("redis://u%%40ser:wrong@%s/0", s.Addr()), t.Name()), "WRONGPASS")
	})

	unix := fixture.Start(t, redistest.Options{UnixSocket: true})
	require.NoError(t, lockBy(t, "unix://"+unix.Addr()+"?db=2", t.Name()))
}

func TestABadURLIsOneErrorThatNamesThePart(t *testing.T) {
	for url, says := range map[string]string{
		"":                                       "no scheme: the URL must begin with redis://, rediss://, unix://, redis-sentinel://",
		"localhost:6379":                         "no scheme",
		"http://localhost":                       "scheme is not known: the URL must begin with redis://",
		"redis:localhost":                        "must begin with redis://",
		"redis+sentinel://:s3cret@h/m":           `scheme is "redis+sentinel": write redis-sentinel://`,
		"redis-cluster://:s3cret@a,b":            "give it to cluster.Open, and give the Topology that cluster.Open returns to NewTopology",
		"redis-sentinel://:s3cret@a,b/0":         "add ?master=mymaster",
		"redis://:s3cret@host:port":              "a port that is no number from 1 to 65535",
		"redis://:s3cret@host:99999":             "a port that is no number from 1 to 65535",
		"redis://:s3cret@host:0":                 "a port that is no number from 1 to 65535",
		"redis://:s3cret#x@host":                 "percent-encode",
		"redis://host/0#s3cret":                  "fragment",
		"redis://s3cret@host":                    "user without a password",
		"redis://:@host":                         "password is empty",
		"redis://:s3cret@host/first":             "database must be a number",
		"redis://:s3cret@host/-1":                "database must be a number",
		"redis://:s3cret@host/1?db=2":            `option "db" more than once`,
		"redis://:s3cret@host?db=1&db=2":         `option "db" more than once`,
		"redis://:s3cret@host?timeout=1s":        `option "timeout" is not known: write dial_timeout`,
		"redis://:s3cret@host?s3cret=1":          "option of the URL is not known: the options are db, client_name, dial_timeout",
		"redis://:s3cret@host?dial_timeout=fast": "dial_timeout must be a time",
		"redis://:s3cret@host?read_timeout=-1s":  "read_timeout must be a time",
		"redis://a,b":                            "several hosts: write redis-sentinel://",
		"redis://:s3cret@a:1,b:2/0":              "several hosts",
		"redis://u:12/s3cret@host":               "/ as %2F",
		"redis://u:12?s3cret@host:6379/0":        "/ as %2F",
		"redis://u:12#s3cret@host":               "/ as %2F",
		"redis://u:12%s3cret@host":               "cannot be read",
		"unix://run/redis.sock":                  "three slashes",
		"unix://":                                "three slashes",
	} {
		c, err := lock.Open(url, lock.Config{})
		require.Nil(t, c, url)
		require.ErrorContains(t, err, says, url)
		require.ErrorContains(t, err, "lock: Open: ", url)
		require.NotContains(t, err.Error(), "s3cret", url)
		require.NotContains(t, err.Error(), "\n", url)
	}
	_, err := lock.Endpoint{URL: "redis://localhost", TLS: &tls.Config{}}.Open(lock.Config{})
	require.ErrorContains(t, err, "lock: Open: Endpoint.TLS is set, but")
	_, err = lock.Endpoint{URL: "redis://:p@localhost", Credentials: func(context.Context) (string, string, error) { return "", "", nil }}.Open(lock.Config{})
	require.ErrorContains(t, err, "lock: Open: Endpoint.Credentials is set and")
	_, err = lock.Open("redis://localhost", lock.Config{Lease: time.Millisecond})
	require.ErrorContains(t, err, "lock: Config.Lease is 1ms")
}

// TestNoErrorOfOpenHasThePassword: whatever is in it, and however it is written, no error of
// Open has a piece of it. Nor have those of a dial, which end in logs.
func TestNoErrorOfOpenHasThePassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Pieces that no text of ours has, between what URLs are made of.
		odd := rapid.StringMatching(`[/?#@:%&=;+, \[\]]{0,3}`)
		pieces := []string{"Zq17", "Xk93", "Wv58"}
		password := odd.Draw(t, "0")
		for i, piece := range pieces {
			password += piece + odd.Draw(t, fmt.Sprint(i+1))
		}
		if rapid.Bool().Draw(t, "encoded") {
			password = url.QueryEscape(password)
		}
		text := rapid.SampledFrom([]string{"redis://", "rediss://", "unix://", "redis-sentinel://", "redis-cluster://", "http://", "redis:", ""}).Draw(t, "scheme") +
			rapid.SampledFrom([]string{"", "app", "a%b", "1"}).Draw(t, "user") + ":" + password + "@" +
			rapid.SampledFrom([]string{"", "127.0.0.1:1", "host:port", "h,i:2", "/no/such.sock", "[::1"}).Draw(t, "host") +
			rapid.SampledFrom([]string{"", "/0", "/x", "?db=1", "?db=x", "?timeout=1", "/1?db=2", "#", "?master=m", "?master=m&sentinel_password=" + url.QueryEscape(password)}).Draw(t, "rest")
		client, err := lock.Open(text, lock.Config{Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err = client.Mutex("m").TryLock(ctx)
			cancel()
			fixture.CloseNow(client)
		}
		if err == nil {
			t.Fatal("nothing answers there")
		}
		for _, piece := range pieces {
			if strings.Contains(err.Error(), piece) {
				t.Fatalf("%s: %v", text, err)
			}
		}
	})
}

// TestOpenDoesNotRepeatThePassword of a server that does: one that does not know AUTH says
// with which arguments it was called.
func TestOpenDoesNotRepeatThePassword(t *testing.T) {
	s := fixture.Either(t)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if strings.EqualFold(c.Args[0], "AUTH") {
			return faultproxy.Answer(redis.Error(fmt.Sprintf("ERR unknown command 'AUTH', with args beginning with: '%s' '%s' ", c.Args[1], c.Args[len(c.Args)-1])))
		}
		return faultproxy.Pass
	})
	var log fixture.Log
	c, err := lock.Open("redis://app:s3cret@"+p.Addr(), lock.Config{Logger: log.Logger(), FailFast: true})
	require.NoError(t, err)
	log.Flush = lock.FlushLog(c)
	defer fixture.CloseNow(c)
	_, err = c.Mutex("m").Lock(bounded.Context(t))
	require.ErrorContains(t, err, "refuses to log in")
	require.NotContains(t, err.Error(), "s3cret")
	require.NotContains(t, log.String(), "s3cret")
	require.Contains(t, log.String(), "no connection to Redis")
	err = c.Check(bounded.Context(t))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
}
