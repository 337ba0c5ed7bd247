package twin

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// states are the states in which a server refuses writes, each with the commands that begin and end it.
var states = map[string][2]string{
	"READONLY":   {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
	"NOREPLICAS": {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
	"MISCONF":    {"CONFIG SET stop-writes-on-bgsave-error yes", "CONFIG SET stop-writes-on-bgsave-error no"},
	"OOM":        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
}

// growing are the scripts that full memory may refuse. The others release, extend or delete
// something, or keep a place. Full memory must not stop them.
var growing = strings.Fields(`acquire handoff guard token rw_read rw_write semaphore_set semaphore_take latch_set permit_set permit_take`)

// cannotSave makes the server fail to save its data.
func cannotSave(t *testing.T, s *redistest.Server) {
	t.Helper()
	file := filepath.Join(fixture.Strings(t, s, "CONFIG", "GET", "dir")[1], fixture.Strings(t, s, "CONFIG", "GET", "dbfilename")[1])
	require.NoError(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o777))
	fixture.Do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	fixture.Do(t, s, "CONFIG", "SET", "save", "3600 1000000")
	fixture.Do(t, s, "BGSAVE")
	bounded.Until(t, func() bool {
		return strings.Contains(string(fixture.Do(t, s, "INFO", "persistence").([]byte)), "rdb_last_bgsave_status:err")
	})
}

// unchanged reports whether keys are as they were, apart from the time that has passed.
func unchanged(before, after []entry) bool {
	after = slices.Clone(after)
	for i := range min(len(before), len(after)) {
		if was, is := before[i].end, after[i].end; is >= 0 && is <= was && was-is < slack {
			after[i].end = was
		}
	}
	return (&server{before}).String() == (&server{after}).String()
}

// TestARefusalForTheServersStateHasChangedNothing: whatever the keys have, a script that ends with one of
// these codes except OOM has written nothing before. So package pipe may conclude from them that nothing
// ran. Full memory refuses no release and no extension. With -v the test prints how often each script was
// refused.
func TestARefusalForTheServersStateHasChangedNothing(t *testing.T) {
	s := fixture.Server(t)
	cannotSave(t, s)
	conn := fixture.Dial(t, s)
	all := slices.Sorted(maps.Keys(states))
	if !fixture.HasAbilities(t, redistest.ReplicasRule) {
		all = slices.DeleteFunc(all, func(code string) bool { return code == "NOREPLICAS" })
	}
	switchTo := func(command string) {
		words := strings.Fields(command)
		fixture.DoOn(t, conn, words[0], redis.Args{}.AddFlat(words[1:])...)
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			wrong, refused := map[string]string{}, map[string]map[string]int{}
			for _, c := range f.calls {
				refused[c.script.Name()] = map[string]int{}
			}
			rapid.Check(t, func(rt *rapid.T) {
				r := newBoth(rt, conn, redis.PubSubConn{})
				for range rapid.IntRange(5, 25).Draw(rt, "calls") {
					c := rapid.SampledFrom(f.calls).Draw(rt, "script")
					one := c.call(&draw{rt, r.now})
					one.script = c.script
					code := rapid.SampledFrom(all).Draw(rt, "state")
					args := append([]any{one.script.Text()}, wire(one)...)
					before := r.dump()
					switchTo(states[code][0])
					_, err := conn.Do("EVAL", args...)
					switchTo(states[code][1])
					var said redis.Error
					require.True(rt, err == nil || errors.As(err, &said), "%v", err)
					after := r.dump()
					if r.slow() {
						return
					}
					if pipe.Code(err) == code {
						refused[c.script.Name()][code]++
						require.Equal(rt, code != "OOM", pipe.NotRun(err), "%v", err)
						if code != "OOM" && !unchanged(before, after) || code == "OOM" && !slices.Contains(growing, c.script.Name()) {
							wrong[c.script.Name()+" "+code] = fmt.Sprintf("%q\nbefore %v\nafter  %v\n%v", one.args, &server{before}, &server{after}, err)
						}
					}
					_, _ = conn.Do("EVAL", args...)
				}
			})
			for _, c := range f.calls {
				t.Log(c.script.Name(), refused[c.script.Name()])
			}
			for _, what := range slices.Sorted(maps.Keys(wrong)) {
				t.Errorf("%s: %s", what, wrong[what])
			}
		})
	}
}
