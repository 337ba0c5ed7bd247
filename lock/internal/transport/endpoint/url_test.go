package endpoint_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
)

func TestAURLSaysWhereAndHow(t *testing.T) {
	usual := func(u endpoint.URL) endpoint.URL {
		u.Connect, u.Read, u.Write = 5*time.Second, 5*time.Second, 5*time.Second
		if u.Network == "" {
			u.Network = "tcp"
		}
		return u
	}
	limited := usual(endpoint.URL{Addrs: []string{"h:6379"}, ClientName: "orders", Database: 2})
	limited.Connect, limited.Read, limited.Write = time.Second, 2*time.Second, 3*time.Second
	for text, want := range map[string]endpoint.URL{
		"redis://":                     usual(endpoint.URL{Addrs: []string{"localhost:6379"}}),
		"redis://:6380":                usual(endpoint.URL{Addrs: []string{"localhost:6380"}}),
		"redis://h":                    usual(endpoint.URL{Addrs: []string{"h:6379"}}),
		"redis://h:/":                  usual(endpoint.URL{Addrs: []string{"h:6379"}}),
		"redis://[::1]":                usual(endpoint.URL{Addrs: []string{"[::1]:6379"}}),
		"redis://[fe80::1%25eth0]":     usual(endpoint.URL{Addrs: []string{"[fe80::1%eth0]:6379"}}),
		"redis://[fe80::1%eth0]:7":     usual(endpoint.URL{Addrs: []string{"[fe80::1%eth0]:7"}}),
		"redis://[::1]:7/3":            usual(endpoint.URL{Addrs: []string{"[::1]:7"}, Database: 3}),
		"rediss://u%40:p%3A%2F%23@h/1": usual(endpoint.URL{Addrs: []string{"h:6379"}, Username: "u@", Password: "p:/#", Database: 1, TLS: true}),
		"redis://:p@w@h":               usual(endpoint.URL{Addrs: []string{"h:6379"}, Password: "p@w"}),
		"unix:///a/b?db=2":             usual(endpoint.URL{Network: "unix", Addrs: []string{"/a/b"}, Database: 2}),
		"unix://u:p@/a/b":              usual(endpoint.URL{Network: "unix", Addrs: []string{"/a/b"}, Username: "u", Password: "p"}),
		"redis://h?db=2&client_name=orders&dial_timeout=1s&read_timeout=2s&write_timeout=3s": limited,
		"redis-sentinel://a?master=m": usual(endpoint.URL{Kind: endpoint.Sentinels, Addrs: []string{"a:26379"}, Master: "m"}),
		"rediss-sentinel://u:p@a:1, b,[::1]:2,[::2]/4?master=m&sentinel_user=s&sentinel_password=t%2F": usual(endpoint.URL{
			Kind:  endpoint.Sentinels,
			Addrs: []string{"a:1", "b:26379", "[::1]:2", "[::2]:26379"}, Master: "m", Username: "u", Password: "p", SentinelUsername: "s", SentinelPassword: "t/", Database: 4, TLS: true,
		}),
		"redis-cluster://:p@a,b:2":        usual(endpoint.URL{Kind: endpoint.Cluster, Addrs: []string{"a:6379", "b:2"}, Password: "p"}),
		"rediss-cluster://a/0":            usual(endpoint.URL{Kind: endpoint.Cluster, Addrs: []string{"a:6379"}, TLS: true}),
		"redis-sentinel://a?db=1&master=": {},
	} {
		got, err := endpoint.Parse(text)
		if want.Addrs == nil {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, *got, text)
	}
}

// TestOtherSpellingsAreToldTheRightOne: of other libraries and of older versions.
func TestOtherSpellingsAreToldTheRightOne(t *testing.T) {
	for text, says := range map[string]string{
		"valkey://h":                                  "write redis://",
		"valkeys://h":                                 "write rediss://",
		"redis+tls://h":                               "write rediss://",
		"redis-socket:///run/redis.sock":              "write unix://",
		"redis+sentinel://a,b/m":                      "write redis-sentinel://",
		"sentinel://a":                                "write redis-sentinel://",
		"redis-sentinels://a":                         "write rediss-sentinel://",
		"redis+cluster://a":                           "write redis-cluster://",
		"redis://a,b":                                 "redis-sentinel://host:port,host:port/0?master=mymaster",
		"rediss://:s3cret@a:1,b:2/0":                  "rediss-cluster://host:port,host:port",
		"redis-sentinel://a,b/mymaster":               "/0?master=mymaster",
		"redis-sentinel://a,b/0#mymaster":             "?master=mymaster",
		"redis-sentinel://a,b":                        "?master=mymaster",
		"redis-sentinel://a?master_name=m":            "write master",
		"redis-sentinel://a?service_name=m":           "write master",
		"redis-cluster://a/1":                         "a Cluster has no other",
		"redis-cluster://a?master=m":                  "option of the URL is not known: the options are db",
		"redis-cluster://":                            "host:port, or several",
		"redis-cluster://a,,b":                        "host:port, or several",
		"redis-sentinel://a:b:c?master=m":             "host:port, or several",
		"redis-sentinel://a?master=m&master=n":        `option "master" more than once`,
		"redis-sentinel://a?master=m&sentinel_user=u": "without a sentinel_password",
		"redis://h?client_name=a%20b":                 "client_name must have only ASCII characters and no spaces",
		"redis://h?timeout=1s":                        "write dial_timeout",
	} {
		u, err := endpoint.Parse(text)
		require.Nil(t, u, text)
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "s3cret")
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestSettingsThatDoNotGoWithAURL(t *testing.T) {
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	for text, s := range map[string]endpoint.Settings{
		"redis://h":                   {TLS: &tls.Config{}},
		"unix:///s":                   {TLS: &tls.Config{}},
		"redis-sentinel://h?master=m": {TLS: &tls.Config{}},
		"redis://:s3cret@h":           {Credentials: ask},
	} {
		u, err := endpoint.Parse(text)
		require.NoError(t, err)
		_, err = u.Dialer(s, "Place.%s")
		require.ErrorContains(t, err, "Place.", text)
		require.NotContains(t, err.Error(), "s3cret")
	}
	u, err := endpoint.Parse("rediss://h")
	require.NoError(t, err)
	d, err := u.Dialer(endpoint.Settings{Credentials: ask}, "")
	require.NoError(t, err)
	require.NotNil(t, d.TLS)
}

// requireSecret checks that the error of a text, if it has one, has no piece of it.
func requireSecret(t interface{ Fatalf(string, ...any) }, text string, pieces ...string) {
	_, err := endpoint.Parse(text)
	for _, piece := range pieces {
		if err != nil && strings.Contains(err.Error(), piece) {
			t.Fatalf("%q: %v", text, err)
		}
	}
}

// TestNoErrorHasASecret, wherever in a URL it stands and whatever is missing around it.
func TestNoErrorHasASecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.StringMatching(`[/?#@:%&=;+, \[\]]{0,3}`)
		pieces := []string{"Zq17", "Xk93", "wv58"} // no text of ours has them
		secret := odd.Draw(t, "before")
		for _, piece := range pieces {
			secret += piece + odd.Draw(t, "after "+piece)
		}
		of := func(label string, of ...string) string {
			return rapid.SampledFrom(append(of, "", secret)).Draw(t, label)
		}
		requireSecret(t, of("scheme", "redis", "rediss", "unix", "redis-sentinel", "redis-cluster", "redis+cluster", "http")+
			of("separator", "://", ":", "//")+of("user", "app")+of("colon", ":")+secret+of("at", "@")+of("host", "h", "a:1,b:2", "[::1]", "h:x")+
			of("path", "/0", "/x")+of("query", "?db=1", "?master=m", "?sentinel_password="+secret, "?db="+secret, "?"+secret+"=1", "?dial_timeout="+secret), pieces...)
	})
}

// FuzzNoErrorHasASecret: the text before and behind the secret is anything.
func FuzzNoErrorHasASecret(f *testing.F) {
	f.Add("redis://app:", "@h:1/0")
	f.Add("redis://", "")
	f.Add("redis-sentinel://u:p@a,b/0?sentinel_password=", "&master=m%zz")
	f.Add("unix://", "/x")
	f.Add("", "://h")
	f.Add("redis://h?", "=1")
	f.Fuzz(func(t *testing.T, before, behind string) { requireSecret(t, before+"zqx-vkj"+behind, "zqx-vkj") })
}
