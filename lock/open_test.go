package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
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
		"":                                       `scheme is ""`,
		"localhost:6379":                         `scheme is "localhost": it must begin with redis://, rediss:// or unix://`,
		"http://localhost":                       `scheme is "http"`,
		"redis:localhost":                        "must begin with redis://",
		"redis://:s3cret@host:port":              "number as port",
		"redis://:s3cret@host:99999":             `port is "99999"`,
		"redis://:s3cret@host:0":                 `port is "0"`,
		"redis://:s3cret#x@host":                 "percent-encoded",
		"redis://host/0#s3cret":                  "fragment",
		"redis://s3cret@host":                    "user without a password",
		"redis://:@host":                         "password is empty",
		"redis://:s3cret@host/first":             `database is "first"`,
		"redis://:s3cret@host/-1":                `database is "-1"`,
		"redis://:s3cret@host/1?db=2":            `option "db" more than once`,
		"redis://:s3cret@host?db=1&db=2":         `option "db" more than once`,
		"redis://:s3cret@host?timeout=1s":        `option "timeout" is not known: db, dial_timeout`,
		"redis://:s3cret@host?dial_timeout=fast": `dial_timeout is "fast"`,
		"redis://:s3cret@host?read_timeout=-1s":  `read_timeout is "-1s"`,
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
	_, err := lock.Open("redis://localhost", lock.Config{Lease: time.Millisecond})
	require.ErrorContains(t, err, "lock: Config.Lease is 1ms")
}
