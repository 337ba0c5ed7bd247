package redistest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// servers are the answers of servers about themselves: the fields of INFO that tell them
// apart, and the text that --version prints.
var servers = map[string]struct{ info, printed, program string }{
	"Redis 4.0.14": {
		"# Server\r\nredis_version:4.0.14\r\nredis_mode:standalone\r\nexecutable:/data/redis-server\r\n",
		"Redis server v=4.0.14 sha=00000000:0 malloc=jemalloc-4.0.3 bits=64 build=0", "redis-server 4.0.14",
	},
	"Redis 5.0.14": {
		"# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\nexecutable:/data/redis-server\r\n",
		"Redis server v=5.0.14 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64 build=0", "redis-server 5.0.14",
	},
	"Redis 6.0.20": {
		"# Server\r\nredis_version:6.0.20\r\nexecutable:/usr/bin/redis-server\r\n",
		"Redis server v=6.0.20 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64 build=0", "redis-server 6.0.20",
	},
	"Redis 6.2.16": {
		"# Server\r\nredis_version:6.2.16\r\nexecutable:/usr/bin/redis-server\r\n",
		"Redis server v=6.2.16 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64 build=0", "redis-server 6.2.16",
	},
	"Redis 7.0.15": {
		"# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:cluster\r\nexecutable:/usr/bin/redis-server\r\n",
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0", "redis-server 7.0.15",
	},
	"Redis 8.0.1": {
		"# Server\r\nredis_version:8.0.1\r\nredis_git_sha1:00000000\r\nmonotonic_clock:POSIX clock_gettime\r\nexecutable:/data/redis-server\r\n",
		"Redis server v=8.0.1 sha=00000000:1 malloc=jemalloc-5.3.0 bits=64 build=0", "redis-server 8.0.1",
	},
	"Valkey 7.2.7": {
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.7\r\nexecutable:/usr/bin/valkey-server\r\n",
		"Server v=7.2.7 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", "valkey-server 7.2.7",
	},
	"Valkey 8.0.1": {
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nvalkey_release_stage:ga\r\navailability_zone:\r\nexecutable:/data/redis-server\r\n",
		"Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", "valkey-server 8.0.1",
	},
	"Redict 7.3.6": {
		"# Server\r\nredis_version:7.2.4\r\nredict_version:7.3.6\r\nredis_mode:standalone\r\nexecutable:/data/redict-server\r\n",
		"Redict server v=7.3.6 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", "redict-server 7.3.6",
	},
	"KeyDB 6.3.4": {
		"# Server\r\nredis_version:6.3.4\r\nredis_git_sha1:7e7e5e57\r\nexecutable:/usr/local/bin/keydb-server\r\navailability_zone:\r\n",
		"KeyDB server v=6.3.4 sha=7e7e5e57:0 malloc=jemalloc-5.2.1 bits=64 build=0", "keydb-server 6.3.4",
	},
}

func TestAServerIsKnownByWhatItSays(t *testing.T) {
	t.Parallel()
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			byInfo := redistest.SoftwareOf(redistest.InfoFields(s.info))
			require.Equal(t, name, byInfo.String())
			require.Equal(t, s.program, byInfo.Program())
			byName, err := redistest.Printed(s.printed + "\n")
			require.NoError(t, err)
			require.Equal(t, byInfo, byName)
		})
	}
	nothing := redistest.SoftwareOf(nil)
	require.Equal(t, "Redis", nothing.String())
	require.Equal(t, "redis-server", nothing.Program())
	require.NoError(t, nothing.Lacks(redistest.ShardedPubSub), "who does not tell is tried")
	_, err := redistest.Printed("redis-cli 7.0.15\n")
	require.ErrorContains(t, err, `"redis-cli 7.0.15\n" names no server and version`)
}

func TestWhatAServerCanDoIsDecidedByItsVersion(t *testing.T) {
	t.Parallel()
	all := map[string]redistest.Ability{
		"users": redistest.Users, "channels": redistest.ChannelRights, "shards": redistest.ShardedPubSub,
	}
	for name, lacks := range map[string]string{
		"Redis 4.0.14": "channels shards users", "Redis 5.0.14": "channels shards users",
		"Redis 6.0.20": "channels shards", "Redis 6.2.16": "shards", "KeyDB 6.3.4": "shards",
		"Redis 7.0.15": "", "Redis 8.0.1": "", "Redis 10.0.0": "", "Valkey 7.2.7": "", "Valkey 8.0.1": "", "Redict 7.3.6": "",
	} {
		var s redistest.Software
		s.Name, s.Version, _ = strings.Cut(name, " ")
		for what, a := range all {
			require.Equal(t, strings.Contains(lacks, what), s.Lacks(a) != nil, "%s: %s", name, what)
		}
		require.Equal(t, lacks != "", s.Lacks(redistest.Users, redistest.ChannelRights, redistest.ShardedPubSub) != nil, name)
	}
	require.EqualError(t, redistest.Software{Name: "Redis", Version: "6.2.16"}.Lacks(redistest.Users, redistest.ShardedPubSub),
		"Redis 6.2.16 has no sharded pub/sub, which came with Redis 7.0")
}

func TestRightsAreThoseThatAServerKnows(t *testing.T) {
	t.Parallel()
	words := []string{"on", "resetchannels", "~app:*", "&app:*", "+get", "+hrandfield", "+spublish", "-ssubscribe", "+cluster|slots"}
	for version, want := range map[string][]string{
		"6.0.16": {"on", "~app:*", "+get", "+cluster|slots"},
		"6.2.16": {"on", "resetchannels", "~app:*", "&app:*", "+get", "+hrandfield", "+cluster|slots"},
		"7.0.15": words,
	} {
		require.Equal(t, want, redistest.Software{Name: "Redis", Version: version}.Rights(words...))
	}
	require.Equal(t, words, redistest.Software{}.Rights(words...), "who does not tell is tried")
}

func TestWhatIsInstalledIsWhatStarts(t *testing.T) {
	srv := fixture.Server(t)
	runs, err := srv.Software()
	require.NoError(t, err)
	installed, err := redistest.Installed(t.Context())
	require.NoError(t, err)
	require.Equal(t, runs, installed)
	require.Contains(t, srv.String(), installed.Version)

	t.Setenv("PATH", t.TempDir())
	_, err = redistest.Installed(t.Context())
	require.ErrorIs(t, err, redistest.ErrNoServer)
}

// A server that pretends to be older has none of what came later, and its tests are
// skipped.
func TestAServerCanPretendToBeOlder(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ShardedPubSub) // there is something to take away
	t.Setenv(redistest.EnvPretend, "5.0")
	srv := fixture.Server(t, redistest.DebugArgs()...)
	require.Contains(t, srv.String(), "(a process of ours, as Redis 5.0)")
	software, err := srv.Software()
	require.NoError(t, err)
	require.Equal(t, "Redis 5.0", software.String())
	conn := fixture.Dial(t, srv)
	for _, command := range []string{"ACL", "SSUBSCRIBE", "SPUBLISH", "GETDEL"} {
		_, err := conn.Do(command, "x", "y")
		require.ErrorContains(t, err, "unknown command")
	}
	fixture.DoOn(t, conn, "DEBUG", "SLEEP", 0) // nobody forbade it then
	_, err = redistest.Start(t.Context(), redistest.Options{Args: []string{"--enable-debug-command", "yes"}})
	require.ErrorContains(t, err, "Redis 5.0 knows no --enable-debug-command")
	require.True(t, t.Run("users", func(t *testing.T) {
		t.Cleanup(func() { require.True(t, t.Skipped()) })
		fixture.NeedAbilities(t, redistest.Users)
		t.Error("it goes on")
	}))

	t.Setenv(redistest.EnvPretend, "6.2")
	_, err = redistest.Start(t.Context(), redistest.Options{Args: []string{"--replicaof", "127.0.0.1 1"}})
	require.ErrorContains(t, err, `Redis 6.2 takes no two values in one argument, as "127.0.0.1 1"`)
	srv = fixture.Server(t)
	fixture.Do(t, srv, "ACL", "WHOAMI")
	c := fixture.Dial(t, srv)
	_, err = c.Do("SPUBLISH", "c", "m")
	require.ErrorContains(t, err, "unknown command")
}
