package keys_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// The ids of clients are random. These two are examples, one of ours and one of Redisson.
const (
	someClient = "0b1c1a5e-9a9a-4c7b-8d1e-111111111111"
	javaClient = "5f0e2c1d-7b7b-4a3c-9e2f-222222222222"
)

// keysOf returns all keys that an object of any kind may have: our keys and keys that only Redisson
// makes. The counters of tokens are not among them.
func keysOf(name string) []string {
	braced := keys.Prefix(name)
	return []string{
		name,
		keys.FencedCounter(name), keys.FairQueue(name), keys.FairScores(name), keys.FairSigns(name), keys.Polls(name),
		keys.RWWriters(name), keys.RWReader(name, someClient+":1:2"), keys.RWReader(name, someClient+":o:w{n}er:2"), keys.PermitsTaken(name),
		keys.Result(name, someClient, 1),
		braced + ":" + javaClient + ":37:rwlock_timeout:1", braced + ":" + javaClient + ":37:rwlock_timeout:12",
		"redisson_unlock_latch:" + braced + ":" + javaClient,
	}
}

// words are parts of names. A name that is equal to a key of another name would consist of them.
var words = []string{
	"{", "}", "a", ":", "1", ":timeout", ":wheellock_waiters", ":wheellock_writers", ":wheellock_polls", ":wheellock_result", ":rwlock_timeout:",
	"redisson_lock_queue:", "redisson_lock_timeout:", "redisson_lock_token:", "redisson_unlock_latch:", "wheellock_token", ":" + someClient + ":1", ":" + javaClient,
}

// TestNoTwoNamesShareAKey visits every name of up to four words. Without a Cluster, braces may stand
// anywhere in a name.
func TestNoTwoNamesShareAKey(t *testing.T) {
	of := make(map[string]string) // the name that a key belongs to
	accepted := 0
	var visit func(name string, left int)
	visit = func(name string, left int) {
		if keys.Check(name) == nil {
			accepted++
			for _, key := range keysOf(name) {
				if other, there := of[key]; there && other != name {
					t.Fatalf("%q is a key of %q and of %q", key, other, name)
				}
				of[key] = name
			}
		}
		if left == 0 {
			return
		}
		for _, word := range words {
			if !strings.HasPrefix(name+word, word+word+word) { // a word three times in a row adds nothing
				visit(name+word, left-1)
			}
		}
	}
	visit("", 4)
	require.Greater(t, accepted, 50_000)
}

// TestNoNameOfAnyPrefixMeetsAKeyOfAnother. The counters of tokens count as keys here.
func TestNoNameOfAnyPrefixMeetsAKeyOfAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string, most int) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, most).Draw(t, label), "")
		}
		type object struct {
			prefix, key string
			keys        []string
		}
		draw := func(label, key string) object {
			o := object{prefix: text(label+" prefix", 4)}
			if o.key = key; key == "" {
				o.key = o.prefix + text(label, 5)
			} else if !strings.HasPrefix(key, o.prefix) {
				o.prefix = ""
			}
			if keys.CheckPrefix(o.prefix) != nil {
				o.prefix = ""
			}
			if keys.Check(o.key) == nil {
				o.keys = keysOf(o.key)
			}
			return o
		}
		one := draw("one", "")
		other := ""
		if len(one.keys) > 0 && rapid.Bool().Draw(t, "its own key") {
			other = rapid.SampledFrom(one.keys[1:]).Draw(t, "key")
		}
		two := draw("two", other)
		if one.key == two.key {
			return
		}
		for _, key := range one.keys {
			if slices.Contains(two.keys, key) {
				t.Fatalf("%q is a key of %q and of %q", key, one.key, two.key)
			}
		}
		for _, o := range []object{one, two} {
			for _, slots := range []bool{false, true} {
				for _, key := range one.keys {
					counter := keys.CountersOf(o.prefix, slots).Key(one.key)
					if key == counter {
						t.Fatalf("%q is the counter of prefix %q and a key of %q", key, o.prefix, one.key)
					}
				}
			}
		}
	})
}

func TestNamesThatNoLockMayHave(t *testing.T) {
	const taken = `is that of a key of another lock: `
	for name, text := range map[string]string{
		"":                                        "the name is empty",
		strings.Repeat("x", 65537):                "has 65537 bytes",
		"wheellock_token":                         "that of a counter of fencing tokens: use one that does not end in",
		"app:wheellock_token":                     "that of a counter of fencing tokens",
		"appwheellock_token":                      "that of a counter of fencing tokens",
		"{app}:wheellock_token":                   "that of a counter of fencing tokens",
		"wheellock_token:{7}":                     "that of a counter of fencing tokens",
		"app:wheellock_token:{16383}":             "that of a counter of fencing tokens",
		"{t}:a:wheellock_writers":                 taken + `use one that does not end in ":wheellock_writers"`,
		"{t}:f:wheellock_waiters":                 taken + `use one that does not end in ":wheellock_waiters"`,
		"{f}:wheellock_polls":                     taken + `use one that does not end in ":wheellock_polls"`,
		"{f}:" + someClient + ":1:timeout":        taken + `use one that does not end in ":timeout"`,
		"{f}:1:wheellock_result":                  taken + `use one that does not end in ":wheellock_result"`,
		"a{b:" + javaClient + ":rwlock_timeout:3": taken + `use one that does not end in ":rwlock_timeout:3"`,
		"redisson_lock_queue:{f}":                 taken + `use one that does not begin with "redisson_lock_queue:"`,
		"redisson_lock_timeout:{t}:f":             taken + `use one that does not begin with "redisson_lock_timeout:"`,
		"redisson_lock_token:a{b":                 taken + `use one that does not begin with "redisson_lock_token:"`,
		"redisson_unlock_latch:{x}:1":             taken + `use one that does not begin with "redisson_unlock_latch:"`,
		"{x}":                                     `the name "{x}" would share keys with "x": leave the braces out, or put something before or after them`,
	} {
		require.ErrorContains(t, keys.Check(name), text, name)
	}
}

// TestOrdinaryNamesAreAccepted, with a hash tag in the name, in the prefix, or without one.
func TestOrdinaryNamesAreAccepted(t *testing.T) {
	for _, name := range []string{
		"x", "order:42", "timeout", "a:timeout", "job:wheellock_waiters", "redisson_lock_queue:x", "rwlock_timeout:1", "x:rwlock_timeout:1",
		"wheellock_token2", "wheellock_token:7", "wheellock_tokens", "wheellock_token:{a}", "wheellock_token:{}", "my:wheellock_token:x",
		"a}b{", "{}", "{x}y", "x{y}", "{x}{y}", "{{x}}",
		fmt.Sprintf("user:%s:1", someClient), strings.Repeat("x", keys.MaxLen),
	} {
		require.NoError(t, keys.Check(name), name)
	}
	for _, name := range []string{
		"x", "order:42", "job-timeout", "writers", "a:waiters", "redisson_lock_queue", "redisson_lock_queue:1", "rwlock_timeout:x", "x:rwlock_timeout:",
		someClient, someClient + ":1", "a:" + someClient + ":7", "client:1", "{b}", "b{", "token",
	} {
		require.NoError(t, keys.Check("{app}:"+name), name)
	}
}

func TestPrefixes(t *testing.T) {
	for _, prefix := range []string{"", "app:", "{app}:", "x{app}", "{app}{", "{app}}", "a:{b}:c:"} {
		require.NoError(t, keys.CheckPrefix(prefix), prefix)
	}
	for _, prefix := range []string{"{", "}", "{app", "app}:", "{}", "{}:{a}", "}{a}", "a{:"} {
		require.EqualError(t, keys.CheckPrefix(prefix),
			fmt.Sprintf("lock: Config.KeyPrefix %q has a brace and no hash tag: write the tag as in \"{app}:\", or leave the braces out", prefix))
	}
}

// TestCountersOfPrefixes: each prefix has its own counter of tokens. In a Cluster it has one for each slot.
func TestCountersOfPrefixes(t *testing.T) {
	for _, test := range []struct{ prefix, name, plain, slotted string }{
		{"", "x", "wheellock_token", "wheellock_token:{"},
		{"app:", "app:x", "app:wheellock_token", "app:wheellock_token:{"},
		{"app:", "app:{y}x", "app:wheellock_token", "app:wheellock_token:{"},
		{"{app}:", "{app}:x", "{app}:wheellock_token", "{app}:wheellock_token"},
		{"a{p}{", "a{p}{x", "a{p}{wheellock_token", "a{p}{wheellock_token"},
	} {
		require.Equal(t, test.plain, keys.CountersOf(test.prefix, false).Key(test.name))
		slotted := keys.CountersOf(test.prefix, true).Key(test.name)
		require.Regexp(t, "^"+regexp.QuoteMeta(test.slotted)+`(\d+})?$`, slotted)
		require.Equal(t, keys.Slot(test.name), keys.Slot(slotted))
	}
}
