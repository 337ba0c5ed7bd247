package twin

import (
	"strconv"

	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// draw draws the arguments of a random call.
type draw struct {
	t   *rapid.T
	now int64
}

func (d *draw) of(label string, values ...string) string {
	return rapid.SampledFrom(values).Draw(d.t, label)
}

// lease draws a lease, mostly a good one.
func (d *draw) lease() string {
	if rapid.IntRange(0, 30).Draw(d.t, "bad lease") == 30 {
		return d.of("lease", "0", "-5", "x")
	}
	return strconv.Itoa(leaseUnit * rapid.IntRange(1, 3).Draw(d.t, "lease"))
}

func (d *draw) count() string { return d.of("count", "1", "2", "3") }

// some draws up to three of the values, perhaps one of them twice.
func (d *draw) some(values ...string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(values), 0, 3).Draw(d.t, "some")
}

// family are scripts that share keys.
type family struct {
	name   string
	keys   []string
	values []string // what somebody else may put there
	calls  []drawn
}

type drawn struct {
	script *script.Script
	call   func(d *draw) call
}

const (
	name   = "x"
	client = "9EZ-2paxEfOSyzhd@api-7f9c5d9b4d-x2k4" // an id with a label
)

func called(of []string, args ...string) call { return call{keys: of, args: args} }

var fields = []string{client + ":1:1", client + ":1:2", "d:2:1"}

func (d *draw) field() string { return d.of("field", fields...) }

func others(of []string, but string) (out []string) {
	for _, f := range of {
		if f != but {
			out = append(out, f)
		}
	}
	return out
}

// counted draws the keys of a script: only the lock, or also the token counter, or also the key of clients
// that receive no messages.
func (d *draw) counted() []string {
	all := []string{name, keys.Counter, keys.Polls(name)}
	return all[:rapid.IntRange(1, 3).Draw(d.t, "keys")]
}

// more draws how many tokens to reserve.
func (d *draw) more() string { return d.of("more tokens", "0", "64", "10485", "10486") }

func (d *draw) floor() string { return d.of("least token", "1", "10", "1048576", "x") }

var families = []family{
	{"mutex", []string{name, "y", keys.Counter, keys.Polls(name), "guarded"}, []string{client + ":1:1", "java:7", "mode", "other", "7", "9007199254740990", "abc"}, []drawn{
		{script.Acquire, func(d *draw) call {
			f := d.field()
			return called(d.counted(), append([]string{f, d.lease(), d.floor(), d.more(), d.goodLease()}, d.some(others(fields, f)...)...)...)
		}},
		{script.Reenter, func(d *draw) call { return called([]string{name}, d.field(), d.count(), d.lease()) }},
		{script.Release, func(d *draw) call {
			return called([]string{name}, d.field(), "channel", "publish")
		}},
		{script.Handoff, func(d *draw) call {
			f := d.field()
			args := []string{f, d.of("next", others(fields, f)...), d.lease(), d.floor(), d.more()}
			if rapid.Bool().Draw(d.t, "end of a run") {
				args = append(args, "channel", d.of("own subscriptions", "0", "1"), "publish", d.goodLease(), d.of("open", "0", "0", "1"))
			}
			return called(d.counted(), args...)
		}},
		{script.Renew, func(d *draw) call {
			return called([]string{name, "y", name}, d.lease(), client+":", d.of("rest", "1:1", "1:2"), d.of("rest", "1:1", "1:2"), "1:3")
		}},
		{script.Guard, func(d *draw) call {
			c := called([]string{name, name, "guarded"}, d.field(), d.of("command", "set", "get", "incrby", "rpush"), d.of("value", "5", "word"))
			if c.args[1] == "get" {
				c.args = c.args[:2]
			}
			return c
		}},
		{script.Force, func(d *draw) call {
			return called([]string{name}, append([]string{"channel", "publish"}, d.some(fields...)...)...)
		}},
		{script.Inspect, func(*draw) call { return called([]string{name}) }},
		{script.Token, func(d *draw) call { return called([]string{keys.Counter}, d.floor()) }},
	}},
	{"readers and writers", append([]string{name, keys.RWWriters(name), "guarded"}, timeouts()...), []string{client + ":1:1", client + ":1:2:write", "mode", "read"}, []drawn{
		{script.RwRead, func(d *draw) call {
			f := d.field()
			args := []string{f, d.lease(), d.of("own writing", append([]string{"", ""}, writeFields...)...), d.of("writers first", "0", "1"), keys.Prefix(name), "channel", "publish"}
			return called([]string{name, keys.RWReader(name, f), keys.RWWriters(name)}, append(args, d.some(append(others(fields, f), writeFields...)...)...)...)
		}},
		{script.Guard, func(d *draw) call {
			f := d.field()
			return called([]string{name, keys.RWReader(name, f), "guarded"}, f, "incrby", "1")
		}},
		{script.RwWrite, func(d *draw) call {
			f := d.of("writing", writeFields...)
			args := []string{f, d.lease(), d.of("writer", "w1", "w2"), d.of("announcement", "0", "100000", "200000"), keys.Prefix(name), "channel", "publish"}
			return called([]string{name, keys.RWWriters(name)}, append(args, d.some(append(others(writeFields, f), fields...)...)...)...)
		}},
		{script.RwReadReenter, func(d *draw) call {
			f := d.field()
			return called([]string{name, keys.RWReader(name, f)}, f, d.count(), d.lease())
		}},
		{script.RwReadRelease, func(d *draw) call {
			f := d.field()
			return called([]string{name, keys.RWReader(name, f), keys.RWWriters(name)}, f, "channel", keys.Prefix(name), "publish")
		}},
		{script.RwWriteRelease, func(d *draw) call {
			return called([]string{name, keys.RWWriters(name)}, d.of("writing", writeFields...), "channel", keys.Prefix(name), "publish")
		}},
		{script.RwWithdraw, func(d *draw) call {
			return called([]string{keys.RWWriters(name)}, d.of("writer", "w1", "w2"), "channel", "publish")
		}},
		{script.RwRenew, func(d *draw) call {
			return called([]string{name, name}, d.lease(), client+":", "1:1", d.of("rest", "1:1", "1:2"))
		}},
		{script.Reenter, func(d *draw) call {
			return called([]string{name}, d.of("writing", writeFields...), d.count(), d.lease())
		}},
		{script.Renew, func(d *draw) call { return called([]string{name}, d.lease(), client+":", "1:2:write") }},
		{script.RwForce, func(d *draw) call {
			return called([]string{name, keys.RWWriters(name)}, append([]string{"channel", "publish", keys.Prefix(name)}, d.some(append(writeFields, fields...)...)...)...)
		}},
		{script.Inspect, func(*draw) call { return called([]string{name}) }},
	}},
	{"fair mutex", append(fairKeys(), keys.Counter), []string{client + ":1:1", "java:1", "7"}, []drawn{
		{script.FairTake, func(d *draw) call {
			f := d.field()
			args := []string{
				f, d.lease(), d.floor(), d.time(0, 0), d.of("patience", "300000"), d.of("sign", "", "1 a", "2 b", "2 c"),
				d.field(), d.of("its sign", "", "1 a", "its last"), d.of("at least", "100000", "200000"), "channel", "publish", "116000",
			}
			earlier, owed := []string{}, d.some(others(fields, f)...)
			if args[5] != "" {
				earlier = d.some(others(fields, f)...)
			}
			args = append(args, strconv.Itoa(len(earlier)))
			return called(append(fairKeys(), keys.Counter), append(append(args, earlier...), owed...)...)
		}},
		{script.FairSign, func(d *draw) call {
			args := []string{d.time(0, 0), d.of("patience", "300000"), d.of("at least", "100000", "200000"), "116000", " a"}
			for _, f := range d.some(fields...) {
				args = append(args, f, d.of("number", "1", "2", "3"))
			}
			return called(fairKeys(), args...)
		}},
		{script.FairRelease, func(d *draw) call {
			f := d.field()
			args := append([]string{f, "channel", d.time(0, 0), "58000", "publish"}, d.some(others(fields, f)...)...)
			args = append(args, redissons[:rapid.SampledFrom([]int{0, 0, len(redissons)}).Draw(d.t, "others")]...)
			return called(fairKeys(), args...)
		}},
		{script.FairForce, func(d *draw) call {
			return called([]string{name, keys.FairQueue(name)}, append([]string{"channel", "publish"}, d.some(fields...)...)...)
		}},
		{script.Reenter, func(d *draw) call { return called([]string{name}, d.field(), d.count(), d.lease()) }},
		{script.Inspect, func(*draw) call { return called([]string{name}) }},
	}},
	{"semaphore", []string{name, "result1", "result2"}, []string{"3", "-2", "2147483647", "abc", "007", "-0", "1e3", "inf", "9007199254740993"}, []drawn{
		{script.SemaphoreSet, counterCall("2", "5")},
		{script.SemaphoreAdd, counterCall("1", "3", "-4", "0")},
		{script.SemaphoreRelease, counterCall("1", "3", "0")},
		{script.SemaphoreTake, func(d *draw) call {
			return called(d.result(), d.of("permits", "1", "2", "all"), d.goodLease())
		}},
		{script.SemaphoreUndo, func(d *draw) call { return called(d.result(), "channel", d.goodLease(), "publish") }},
		{script.SemaphoreDelete, func(d *draw) call { return called(d.result(), d.goodLease()) }},
		{script.SemaphoreExpire, func(d *draw) call { return called(d.result(), d.goodLease(), d.goodLease()) }},
		{script.SemaphoreTTL, func(*draw) call { return called([]string{name}) }},
		{script.TTL, func(*draw) call { return called([]string{name}) }},
		{script.Count, func(*draw) call { return called([]string{name}) }},
	}},
	{"latch", []string{name, "result1", "result2"}, []string{"3", "-2", "1", "abc", "-0", "007", "9007199254740993"}, []drawn{
		{script.LatchSet, counterCall("1", "2", "3")},
		{script.LatchDown, func(d *draw) call { return called(d.result(), "channel", d.goodLease(), "publish") }},
		{script.LatchReset, func(d *draw) call { return called(d.result(), "channel", d.goodLease(), "publish") }},
		{script.Count, func(*draw) call { return called([]string{name}) }},
	}},
	{"permits", []string{name, keys.PermitsTaken(name), "result1", "result of free"}, []string{"3", "-2", "abc", "007", "-0", "inf", "9007199254740993", permitText}, []drawn{
		{script.PermitTake, func(d *draw) call {
			args := []string{d.of("bytes", permits...), d.count(), d.of("fewer", "0", "1"), d.time(1, 3), d.time(0, 0), "channel", "publish"}
			for _, owed := range d.some(permits...) {
				if owed != args[0] {
					args = append(args, owed+d.count())
				}
			}
			return called(taken(), args...)
		}},
		{script.PermitRelease, func(d *draw) call {
			return called(taken(), d.of("bytes", permits...)+d.count(), "channel", "publish")
		}},
		{script.PermitRenew, func(d *draw) call {
			return called([]string{keys.PermitsTaken(name), keys.PermitsTaken(name), "other"}, d.time(1, 3), d.time(-1, 1), permits[0]+d.count(), permits[1]+d.count(), permits[0]+"1")
		}},
		{script.PermitExtend, func(d *draw) call {
			return called([]string{keys.PermitsTaken(name)}, d.of("bytes", permits...)+d.count(), d.time(1, 3), d.time(-1, 1))
		}},
		{script.PermitSet, func(d *draw) call {
			return called([]string{name, d.resultKey(), keys.PermitsTaken(name)}, d.of("permits", "0", "2", "5"), "channel", d.goodLease(), "publish")
		}},
		{script.PermitInspect, func(d *draw) call { return called(taken(), d.time(0, 0)) }},
		{script.PermitFree, func(d *draw) call {
			ids := ""
			for range rapid.IntRange(1, 2).Draw(d.t, "ids") {
				ids += d.permit()
			}
			return called([]string{name, "result of free", keys.PermitsTaken(name)}, ids, d.time(0, 0), "channel", d.goodLease(), "publish")
		}},
		{script.PermitSetLease, func(d *draw) call {
			return called([]string{keys.PermitsTaken(name), d.resultKey()}, d.permit(), d.time(-1, 3), d.time(0, 0), d.goodLease())
		}},
		{script.PermitDeadline, func(d *draw) call { return called([]string{keys.PermitsTaken(name)}, d.permit()) }},
		{script.SemaphoreExpire, func(d *draw) call {
			return called([]string{name, d.resultKey(), keys.PermitsTaken(name)}, d.goodLease(), d.goodLease())
		}},
		{script.SemaphoreDelete, func(d *draw) call {
			return called([]string{name, d.resultKey(), keys.PermitsTaken(name)}, d.goodLease())
		}},
	}},
}

var writeFields = []string{client + ":1:2:write", client + ":1:3:write", "d:2:2:write"}

// redissons are waiters of Redisson. They are more than a release removes from the queue one by one.
var redissons = []string{"java:1", "java:2", "java:3", "java:4", "java:5", "java:6", "java:7", "java:8", "java:9", "java:10"}

func fairKeys() []string {
	return []string{name, keys.FairQueue(name), keys.FairScores(name), keys.FairSigns(name)}
}

func timeouts() (out []string) {
	for _, f := range fields {
		out = append(out, keys.RWReader(name, f))
	}
	return out
}

func (d *draw) resultKey() string { return d.of("result", "result1", "result2") }
func (d *draw) result() []string  { return []string{name, d.resultKey()} }

// goodLease draws a good lease.
func (d *draw) goodLease() string {
	return strconv.Itoa(leaseUnit * rapid.IntRange(1, 3).Draw(d.t, "lease"))
}

// counterCall draws a call of a script whose arguments are a number, a channel, a TTL
// and the command.
func counterCall(numbers ...string) func(*draw) call {
	return func(d *draw) call {
		return called(d.result(), d.of("number", numbers...), "channel", d.goodLease(), "publish")
	}
}

var permits = []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb"}

// permitText is a permit whose name is the text of its id.
const permitText = "00112233445566778899aabbccddeeff"

func (d *draw) permit() string {
	return d.of("permit", "616161616161616161616161"+"00000001", "616161616161616161616161"+"00000002", "626262626262626262626262"+"00000001", permitText)
}

func taken() []string { return []string{name, keys.PermitsTaken(name)} }

// time draws a time between from and to leases after now. The client's clock agrees with the server's.
func (d *draw) time(from, to int) string {
	return strconv.FormatInt(d.now+int64(leaseUnit*rapid.IntRange(from, to).Draw(d.t, "time")), 10)
}
