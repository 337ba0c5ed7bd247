package diagnosis_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/support/diagnosis"
	"github.com/wheellock/wheellock/lock/script"
)

var names = diagnosis.Names{Name: "n", Tagged: "n{n}"}

// commands returns the commands of the group that scripts call, by diagnosis.Calls and by script
// check itself.
func commands(g diagnosis.Group) []string {
	var found []string
	if g == diagnosis.Core {
		found = append(found, "set") // with which script check begins
	}
	for _, call := range diagnosis.Calls(names, false) {
		if call.Group == g {
			found = append(found, call.Command())
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestEveryCommandOfTheScriptsIsTried, and no other, so that the list cannot drift.
func TestEveryCommandOfTheScriptsIsTried(t *testing.T) {
	called := map[string]bool{}
	literal := regexp.MustCompile(`\bp?call\('(\w+)'`)
	other := regexp.MustCompile(`\bp?call\(([^'][^,()]*(?:\([^()]*\))?)`)
	remembered := regexp.MustCompile(`\b(?:remember\([^,]+, [^,]+, |errorIfForbidden\()'(\w+)'`)
	for _, s := range script.All() {
		for _, m := range remembered.FindAllStringSubmatch(s.Text(), -1) {
			called[m[1]] = true
		}
		for _, m := range literal.FindAllStringSubmatch(s.Text(), -1) {
			called[m[1]] = true
		}
		for _, m := range other.FindAllStringSubmatch(s.Text(), -1) {
			switch m[1] {
			case "publish", "publish or 'publish'", "command or 'publish'":
				called["publish"] = true
			case "...": // the arguments of these two functions
				require.Regexp(t, `function (remember|errorIfForbidden)\(`, s.Text())
			case "unpack(call)": // the command that Guard runs needs a right of its own
				require.Equal(t, script.Guard, s)
			case "unpack(ARGV, i + 1, i + words)": // what diagnosis.Calls says
				require.Equal(t, script.Check, s)
			default:
				t.Errorf("%s calls %s: which commands are that?", s.Name(), m[1])
			}
		}
	}
	require.True(t, called["time"], "which Check asks for by itself")
	delete(called, "time")
	var want []string
	for command := range called {
		want = append(want, command)
	}
	slices.Sort(want)
	tried := append(commands(diagnosis.Core), commands(diagnosis.Family)...)
	slices.Sort(tried)
	require.Equal(t, want, tried)
}

// TestTheRightsOfThePageAreTried: each list of commands is the list of its group, without the commands
// that no script calls.
func TestTheRightsOfThePageAreTried(t *testing.T) {
	lists := fixture.RightsOfPage(t, "../../../SERVERS.md")
	outside := []string{"evalsha", "eval", "subscribe", "unsubscribe", "ping", "wait", "time"} // of scripts
	for i, g := range []diagnosis.Group{diagnosis.Core, diagnosis.Family} {
		var rights []string
		for _, word := range lists[i] {
			if right, ok := strings.CutPrefix(word, "+"); ok && !slices.Contains(outside, right) {
				rights = append(rights, right)
			}
		}
		slices.Sort(rights)
		require.Equal(t, rights, commands(g))
	}
}

// answer is what script check says if every command says reply.
func answer(calls []diagnosis.Call, reply any, but map[string]any) []any {
	answers := []any{reply}
	if other, ok := but["set"]; ok {
		answers[0] = other
	}
	for _, call := range calls {
		one := reply
		if other, ok := but[call.Command()]; ok {
			one = other
		}
		if other, ok := but[call.Channel.Name]; ok && call.Channel.Name != "" {
			one = other
		}
		answers = append(answers, one)
	}
	return answers
}

func texts(findings []diagnosis.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.Text + "\n")
	}
	return b.String()
}

const (
	inScript6  = redis.Error("ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: The user executing the script can't run this command or subcommand")
	inScript7  = redis.Error("ERR ACL failure in script: User u has no permissions to run the 'hkeys' command script: 6d2b, on @user_script:9.")
	ofKey6     = redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	ofKey7     = redis.Error("NOPERM No permissions to access a key")
	ofChannel6 = redis.Error("ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: The user executing the script can't publish to the channel mentioned in the command")
	ofChannel7 = redis.Error("ERR ACL failure in script: No permissions to access a channel script: 6d2b, on @user_script:9.")
	wrongType  = redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value")
	unknown6   = redis.Error("ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: Unknown Redis command called from Lua script")
	unknown7   = redis.Error("ERR unknown command 'X', with args beginning with: ")
)

func TestWhatAnswersMean(t *testing.T) {
	calls := diagnosis.Calls(names, false)
	for name, test := range map[string]struct {
		but    map[string]any
		want   []string // problems; nothing else is one
		unsaid []string
	}{
		"all is well":                 {},
		"the key has another type":    {but: map[string]any{"hset": wrongType, "zadd": wrongType}},
		"a command, Redis 6":          {but: map[string]any{"hset": inScript6}, want: []string{"may not run hset: ", "+hset"}},
		"a command, Redis 7":          {but: map[string]any{"hset": inScript7}, want: []string{"may not run hset: "}},
		"two commands":                {but: map[string]any{"hset": inScript7, "hlen": inScript7}, want: []string{"may not run hlen, hset: ", "+hlen +hset"}},
		"one of the family":           {but: map[string]any{"zadd": inScript7}, want: []string{"may not run zadd (for FairMutex"}},
		"a channel, Redis 6":          {but: map[string]any{"redisson_lock__channel:{n}": ofChannel6}, want: []string{"channels such as redisson_lock__channel:{n}: "}},
		"a channel, Redis 7":          {but: map[string]any{"redisson_rwlock:{n}": ofChannel7}, want: []string{"channels such as redisson_rwlock:{n} (for FairMutex"}},
		"a channel of a tagged name":  {but: map[string]any{"redisson_lock__channel:n{n}": ofChannel7}, want: []string{"channels such as redisson_lock__channel:n{n}: "}},
		"no PUBLISH":                  {but: map[string]any{"publish": inScript7}, want: []string{"may not run publish: "}},
		"a command that is not there": {but: map[string]any{"linsert": unknown7}, want: []string{"does not know linsert (for FairMutex"}},
		"the same, Redis 6":           {but: map[string]any{"hset": unknown6}, want: []string{"does not know hset: "}},
		"no PUBLISH at all":           {but: map[string]any{"publish": unknown7}, want: []string{"does not know publish: "}},
		"no DEL":                      {but: map[string]any{"del": inScript7}, want: []string{"may not run del: "}},
		"a full memory": {
			but:  map[string]any{"set": redis.Error("OOM command not allowed when used memory > 'maxmemory'. script: 6d2b, on @user_script:9.")},
			want: []string{"memory is full"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r diagnosis.Report
			r.Tried(calls, answer(calls, []byte("ok"), test.but))
			problems, advice := r.Findings()
			require.Empty(t, advice)
			for _, want := range test.want {
				require.Contains(t, texts(problems), want)
			}
			require.Len(t, problems, min(len(test.want), 1))
			for _, p := range problems {
				require.NotEmpty(t, p.Errs)
			}
		})
	}
}

// TestRedis5And6ThatReplicateScriptsAreFound by the write after commands that are not deterministic.
func TestRedis5And6ThatReplicateScriptsAreFound(t *testing.T) {
	calls := diagnosis.Calls(names, false)
	answers := answer(calls, int64(1), nil)
	refusal := redis.Error("ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: " +
		"Write commands not allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script")
	for i := len(answers) - 14; i < len(answers); i++ {
		answers[i] = refusal
	}
	var r diagnosis.Report
	r.Tried(calls, answers)
	problems, _ := r.Findings()
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Text, "set lua-replicate-commands yes")
}

func TestWhoMayDoNothingOfTheFamilyIsMeantNotTo(t *testing.T) {
	// A user with no right of the family gets advice. A user with only some of them has a problem.
	calls := diagnosis.Calls(names, false)
	but := map[string]any{}
	for _, command := range commands(diagnosis.Family) {
		but[command] = inScript7
	}
	var r diagnosis.Report
	r.Tried(calls, answer(calls, int64(1), but))
	problems, advice := r.Findings()
	require.Empty(t, problems)
	require.Contains(t, texts(advice), "the second list in lock/SERVERS.md")

	var keys diagnosis.Report
	keys.Tried(calls, answer(calls, int64(1), nil))
	for _, key := range diagnosis.Keys(names, "wheellock_token") {
		err := error(ofKey7)
		if key.Group == diagnosis.Core {
			err = nil
		}
		keys.Key(key, err)
	}
	problems, advice = keys.Findings()
	require.Empty(t, problems)
	require.Contains(t, texts(advice), "the second list in lock/SERVERS.md")

	var some diagnosis.Report
	for i, key := range diagnosis.Keys(names, "wheellock_token") {
		var err error
		if i%2 == 0 {
			err = ofKey6
		}
		some.Key(key, err)
	}
	problems, advice = some.Findings()
	require.Len(t, problems, 2)
	require.Contains(t, problems[0].Text, "keys such as wheellock_token: ")
	require.Contains(t, problems[1].Text, "redisson_lock_token:{n}")
	require.Contains(t, problems[1].Text, "redisson_lock_timeout:{n}, redisson_lock_queue:n{n}")
	require.Empty(t, advice)
	tagged := diagnosis.Names{Name: "n{n}", Tagged: "n{n}"}
	require.Len(t, diagnosis.Keys(tagged, "c"), len(diagnosis.Keys(names, "c"))-3, "nothing is tried twice")
	require.Len(t, diagnosis.Channels(tagged, false), 5)
}

func TestWhatKeepsAllFromBeingTriedIsSaidOnce(t *testing.T) {
	calls := diagnosis.Calls(names, false)
	for text, want := range map[redis.Error]string{
		"READONLY You can't write against a read only replica. script: 6d2b, on @user_script:9.":                                   "the server is a replica",
		"ERR Error running script (call to f_6d2b): @user_script:9: @user_script: 9: -NOREPLICAS Not enough good slaves to write.": "min-replicas-to-write",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                         "cannot write its data",
		inScript7: "first give the user +set +del",
	} {
		var r diagnosis.Report
		r.Tried(calls, []any{text, text})
		problems, advice := r.Findings()
		require.Contains(t, texts(problems), want)
		require.Empty(t, advice)
		if text != inScript7 {
			require.Len(t, problems, 1)
		}
	}
	for _, text := range []redis.Error{
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.", "NOAUTH Authentication required.",
		"ERR max number of clients reached", "ERR max number of clients + cluster connections reached",
		"CLUSTERDOWN Hash slot not served", "MASTERDOWN Link with MASTER is down", "DENIED Redis is running in protected mode",
	} {
		var r diagnosis.Report
		require.True(t, r.State(text))
		require.True(t, r.State(text))
		problems, _ := r.Findings()
		require.Len(t, problems, 1)
	}
	var r diagnosis.Report
	require.False(t, r.State(wrongType))
	require.False(t, r.State(nil))
	r.Tried(calls, nil)
	problems, _ := r.Findings()
	require.Len(t, problems, 1)
}

// TestRefusedUndeclaredKeysConcernTheReadersOfARWMutexAlone: a program without RWMutex is told that it
// can ignore them.
func TestRefusedUndeclaredKeysConcernTheReadersOfARWMutexAlone(t *testing.T) {
	var r diagnosis.Report
	r.Undeclared(redis.Error("ERR script tried accessing undeclared key"))
	problems, _ := r.Findings()
	require.Contains(t, texts(problems), "a RWMutex cannot have readers. All other locks work, so a program without RWMutex can ignore this")
	for _, err := range []error{nil, redis.Error("NOPERM No permissions to access a key"), redis.Error("LOADING Redis is loading the dataset in memory")} {
		var r diagnosis.Report
		r.Undeclared(err)
		problems, _ := r.Findings()
		require.NotContains(t, texts(problems), "RWMutex cannot", "%v", err)
	}
}

func TestSettings(t *testing.T) {
	const good = "maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\nconnected_slaves:0\r\ncluster_enabled:0\r\n"
	with := func(name, value string) string {
		return regexp.MustCompile(`(?m)^`+name+`:[^\r]*`).ReplaceAllString(good, name+":"+value)
	}
	for name, test := range map[string]struct {
		info            string
		problem, advice string
	}{
		"good":                     {info: good},
		"evicts":                   {info: strings.Replace(with("maxmemory_policy", "volatile-lru"), "maxmemory:0", "maxmemory:1000", 1), problem: "maxmemory-policy is volatile-lru"},
		"would evict":              {info: with("maxmemory_policy", "allkeys-lru"), advice: "as soon as a maxmemory is set"},
		"full but never evicts":    {info: with("maxmemory", "1000")},
		"no AOF":                   {info: with("aof_enabled", "0"), advice: "set appendonly yes"},
		"node of a Cluster":        {info: with("cluster_enabled", "1"), advice: "package lock/cluster"},
		"replicas, not waited for": {info: with("connected_slaves", "2"), advice: "set min-replicas-to-write 1"},
		"replicas of Redis 5":      {info: with("connected_slaves", "2") + "min_slaves_good_slaves:2\r\nredis_version:5.0.14\r\n", advice: "use Redis 6 or newer with min-replicas-to-write 1, or Config.Replicas"},
		"none of Redis 5":          {info: good + "redis_version:5.0.14\r\n"},
		"replicas of Redis 6":      {info: with("connected_slaves", "2") + "min_slaves_good_slaves:2\r\nredis_version:6.0.1\r\n"},
		"replicas, waited for":     {info: with("connected_slaves", "2") + "min_slaves_good_slaves:2\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var r diagnosis.Report
			r.Settings(test.info, false)
			problems, advice := r.Findings()
			require.Equal(t, test.problem == "", len(problems) == 0, texts(problems))
			require.Equal(t, test.advice == "", len(advice) == 0, texts(advice))
			require.Contains(t, texts(problems), test.problem)
			require.Contains(t, texts(advice), test.advice)
		})
	}
	var r diagnosis.Report
	r.Settings(with("cluster_enabled", "1"), true)
	r.Appendfsync("always", nil)
	problems, advice := r.Findings()
	require.Empty(t, problems)
	require.Empty(t, advice)
	r.Settings("", false)
	r.Appendfsync("everysec", nil)
	r.Appendfsync("", wrongType)
	problems, advice = r.Findings()
	require.Empty(t, problems)
	require.Len(t, advice, 4, "what is not known is said")
	require.True(t, diagnosis.PersistsByAOF(good))
	require.False(t, diagnosis.PersistsByAOF(""))
}
