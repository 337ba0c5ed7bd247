package dialing_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
)

const secret = "Zq12/Xk?"

// TestAnAnswerThatRepeatsThePasswordIsNotShown: the forms of Redis of several versions, and
// of proxies.
func TestAnAnswerThatRepeatsThePasswordIsNotShown(t *testing.T) {
	for _, reply := range []redis.Error{
		"ERR unknown command 'AUTH', with args beginning with: 'app' '" + secret + "' ",
		"ERR unknown command `AUTH`, with args beginning with: `" + secret + "`, ",
		"ERR unknown command `auth " + secret + "`",
		"ERR Unsupported Command AUTH " + secret,
		"unknown request: AUTH app " + secret,
		"-ERR hello 3 AUTH app " + secret,
		"WRONGPASS invalid username-password pair 'app' '" + secret + "'",
	} {
		for _, err := range []error{reply, fmt.Errorf("a pool of somebody: %w", reply)} {
			public := dialing.Public(err)
			require.NotContains(t, public.Error(), secret)
			require.NotContains(t, public.Error(), "app ")
			var shown redis.Error
			require.ErrorAs(t, public, &shown, "it stays an answer")
			require.ErrorContains(t, public, "check that the server knows AUTH")
		}
	}
	require.ErrorContains(t, dialing.Public(redis.Error("WRONGPASS 'x'")), "WRONGPASS ", "what it is stays")
}

// TestWhatRepeatsNothingIsShown, because such an error names the fault.
func TestWhatRepeatsNothingIsShown(t *testing.T) {
	require.NoError(t, dialing.Public(nil, secret))
	for _, err := range []error{
		redis.Error("WRONGPASS invalid username-password pair or user is disabled."),
		redis.Error("NOAUTH Authentication required."),
		redis.Error("ERR invalid password"),
		redis.Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
		redis.Error("ERR Client sent AUTH, but no password is set"),
		redis.Error("LOADING Redis is loading the dataset in memory"),
		redis.Error("ERR max number of clients reached"),
		errors.New("connection refused"),
		context.DeadlineExceeded,
	} {
		require.Equal(t, err, dialing.Public(err, secret))
		wrapped := fmt.Errorf("cluster: %w", err)
		require.Equal(t, wrapped, dialing.Public(wrapped, "", secret))
	}
}

// TestAKnownSecretIsNeverShown: whatever the answer, or the error of the network, looks like.
func TestAKnownSecretIsNeverShown(t *testing.T) {
	for _, err := range []error{
		redis.Error("OOPS you sent " + secret),
		errors.New("dial tcp: lookup " + secret + ": no such host"),
		fmt.Errorf("proxy: %w", redis.Error("NO "+secret)),
	} {
		public := dialing.Public(err, "", secret)
		require.NotContains(t, public.Error(), secret)
	}
	require.ErrorContains(t, dialing.Public(redis.Error("OOPS "+secret), secret), "OOPS ")
}

// TestASecretThatIsAWordOfTheErrorDoesNotHideTheCause: redis://:redis@redis.
func TestASecretThatIsAWordOfTheErrorDoesNotHideTheCause(t *testing.T) {
	lookup := fmt.Errorf("sentinel: %w", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "redis", IsTimeout: true}})
	public := dialing.Public(lookup, "redis")
	require.EqualError(t, public, "sentinel: dial tcp: lookup ***: no such host")
	var slow net.Error
	require.True(t, errors.As(public, &slow) && slow.Timeout())
	require.ErrorIs(t, dialing.Public(fmt.Errorf("redis: %w", context.Canceled), "redis"), context.Canceled)
	require.Equal(t, redis.Error("LOADING *** is loading"), dialing.Public(redis.Error("LOADING Redis is loading"), "Redis"))
	require.Equal(t, redis.Error("OOPS *** ***"), dialing.Public(redis.Error("OOPS OOPS pw"), "OOPS", "pw"))
}

// TestAURLThatCannotBeReadIsNotShown: redis.DialURLContext repeats it.
func TestAURLThatCannotBeReadIsNotShown(t *testing.T) {
	for _, rawURL := range []string{"redis://:Zq%zz@h:6379", "redis://:Zq/z@h:6379", "redis://:Zq z@[h"} {
		_, err := redis.DialURLContext(t.Context(), rawURL)
		require.ErrorContains(t, err, "Zq")
		public := dialing.Public(fmt.Errorf("my pool: %w", err))
		require.NotContains(t, public.Error(), "Zq")
		require.ErrorContains(t, public, "percent-encode")
	}
}

func TestEveryDialHidesThem(t *testing.T) {
	_, err := dialing.NewBound(1).Dial(t.Context(), "a", func(context.Context) (redis.Conn, error) {
		return nil, redis.Error("ERR unknown command 'AUTH', with args beginning with: '" + secret + "'")
	})
	require.ErrorContains(t, err, "refuses to log in")
	require.NotContains(t, err.Error(), secret)
}
