package endpoint_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/endpoint"
)

// TestADialIsLimited by the URL, whatever the context of who dials allows.
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
