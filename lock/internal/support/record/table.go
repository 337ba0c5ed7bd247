package record

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Record is a row of the table.
type Record int

const (
	_ Record = iota
	NoConnection
	ConnectedAgain
	NoAnswer
	AnswersAgain
	Replaced
	LayoutDoubted
	ClockSet
	TwoClocks
	TimeRefused
	TimeUnanswered
	Evicts
	MemoryUntold
	RenewalRefused
	PubSubFailed
	PubSubWorks
	PublishRefused
	ShardsRefused
	VersionUntold
	PublishingChosen
	WaitsForOther
	WaitsForItself
	CloseWaits
	HeldDropped
	HookPanicked
	CheckAdvice
	records // one above the last
)

// Row describes a Record. Its bound is either After, or Most and Every.
type Row struct {
	Level slog.Level
	Text  string   // what happened; it begins with "lock: "
	Attrs []string // the names of what Log gets
	// Advice says what to do: it is the attribute "advice". It is empty if Attrs has one, or if
	// there is nothing to do.
	Advice string
	When   string // for the document, where the text does not say it all

	// At most Most records are written in Every, counted from the first one. If Each is not empty,
	// this counts separately for each value of these attributes, but for at most Values of them.
	Each  []string
	Most  int
	Every time.Duration
	// After, if it is not 0, is another record: at most one is written after each of these.
	After Record
}

const (
	// Values is the most values that a Logger counts separately.
	Values = 100
	// Suppressed is the name of an attribute: how many records of that Record were not written since
	// the last one. It is left out if there were none.
	Suppressed = "suppressed"

	day = 24 * time.Hour
)

// untimed ends the texts about requests without a time limit.
const untimed = "have no time limit. A request that arrives late may leave a lock that nobody holds until its lease ends"

// table is never written to.
var table = [records]Row{
	NoConnection: {
		Level: slog.LevelWarn, Text: "lock: no connection to Redis. Calls that wait for a connection try again",
		Attrs:  []string{"server", "error"},
		Advice: "check that Redis runs at this address and accepts this password",
		When:   "not again until a dial has succeeded",
		Each:   []string{"server"}, Most: 5, Every: time.Minute,
	},
	ConnectedAgain: {
		Level: slog.LevelInfo, Text: "lock: connected to Redis again",
		Attrs: []string{"server"}, After: NoConnection,
	},
	NoAnswer: {
		Level: slog.LevelWarn, Text: "lock: Redis did not answer in time. The connection was closed, and calls that wait try again",
		Attrs:  []string{"server"},
		Advice: "find out what keeps Redis busy or stopped (SLOWLOG, the load of its machine), and whether the network loses packets",
		When:   "after `Config.IOTimeout`, and not again until a new connection has brought an answer",
		Each:   []string{"server"}, Most: 1, Every: time.Minute,
	},
	AnswersAgain: {
		Level: slog.LevelInfo, Text: "lock: Redis answers again",
		Attrs: []string{"server"}, After: NoAnswer,
	},
	Replaced: {
		Level: slog.LevelWarn, Text: "lock: the server was replaced. The client asks the new server which of its locks it has",
		Attrs:  []string{"old", "new"},
		Advice: "if nobody planned this, look for the reason in the log of the old server",
		When:   "a failover, a restart, or a move of all its slots",
		Each:   []string{"old"}, Most: 1, Every: time.Minute,
	},
	LayoutDoubted: {
		Level: slog.LevelWarn, Text: "lock: there is doubt about where Redis is",
		Attrs:  []string{"error"},
		Advice: "if this lasts longer than a failover, compare SENTINEL MASTER at each Sentinel, and correct those that are wrong",
		Most:   1, Every: time.Minute,
	},
	ClockSet: {
		Level: slog.LevelWarn, Text: "lock: the server's clock was set, or another server answers. While a clock is set back, requests that " +
			"arrive late are carried out. A clock that is set forward ends leases early",
		Attrs: []string{"server", "by"}, Advice: "let NTP slew the clock",
		Each: []string{"server"}, Most: 1, Every: 10 * time.Minute,
	},
	TwoClocks: {
		Level: slog.LevelWarn, Text: "lock: this server says again and again that requests come too late, as if two servers with different " +
			"clocks answered at one address. Requests over such a connection have no time limit from now on. A request that arrives " +
			"late may leave a lock that nobody holds until its lease ends",
		Attrs: []string{"server"}, Advice: "use an address of one server",
		Each: []string{"server"}, Most: 1, Every: day,
	},
	TimeRefused: {
		Level: slog.LevelWarn, Text: "lock: TIME is refused, so requests " + untimed,
		Attrs: []string{"server", "error"}, Advice: "give the user the right to TIME (lock/SERVERS.md)",
		Each: []string{"server"}, Most: 1, Every: day,
	},
	TimeUnanswered: {
		Level: slog.LevelWarn, Text: "lock: TIME gets no answer, or ends the connection, so the first requests of a connection " + untimed,
		Attrs: []string{"server", "error"}, Advice: "let a proxy in front of the server pass TIME, or connect to Redis directly",
		Each: []string{"server"}, Most: 1, Every: day,
	},
	Evicts: {
		Level: slog.LevelWarn, Text: "lock: when its memory is full, this Redis evicts keys, also the keys of locks. The holder of such a " +
			"lock learns of the loss only at the next renewal",
		Attrs:  []string{"server", "maxmemory_policy", "maxmemory"},
		Advice: "set maxmemory-policy to noeviction, or use a Redis for locks alone",
		Each:   []string{"server"}, Most: 1, Every: day,
	},
	MemoryUntold: {
		Level: slog.LevelWarn, Text: "lock: INFO memory ended the connection or was not answered, so the client does not know whether this " +
			"Redis evicts the keys of locks",
		Attrs:  []string{"server", "error"},
		Advice: "check that maxmemory-policy is noeviction, and that no sharding proxy is in front of the server",
		Each:   []string{"server"}, Most: 1, Every: day,
	},
	RenewalRefused: {
		Level: slog.LevelWarn, Text: "lock: renewal is refused, so locks are lost when their leases end",
		Attrs: []string{"server", "error", "advice"},
		When:  "not again until a renewal has succeeded and a Lease has passed",
		Each:  []string{"server"}, Most: 5, Every: time.Minute,
	},
	PubSubFailed: {
		Level: slog.LevelWarn, Text: "lock: pub/sub failed, so waiters learn of a release only by polling",
		Attrs:  []string{"server", "error"},
		Advice: "if this lasts, check that the user may subscribe to the channels that lock/SERVERS.md lists",
		When:   "not again until pub/sub works",
		Each:   []string{"server"}, Most: 5, Every: time.Minute,
	},
	PubSubWorks: {
		Level: slog.LevelInfo, Text: "lock: pub/sub works again",
		Attrs: []string{"server"}, After: PubSubFailed,
	},
	PublishRefused: {
		Level: slog.LevelWarn, Text: "lock: PUBLISH is refused, so waiters learn of a release only by polling",
		Attrs:  []string{"server", "error"},
		Advice: "give the user the right to PUBLISH and to the channels that lock/SERVERS.md lists",
		Each:   []string{"server"}, Most: 1, Every: day,
	},
	ShardsRefused: {
		Level: slog.LevelWarn, Text: "lock: sharded pub/sub is refused, so PUBLISH is used. Clients that have the right to sharded pub/sub do " +
			"not hear such messages",
		Attrs:  []string{"server", "command", "error"},
		Advice: "give the user the rights to SPUBLISH, SSUBSCRIBE and SUNSUBSCRIBE (lock/SERVERS.md), or set cluster.Options.PubSub",
		Each:   []string{"server"}, Most: 1, Every: day,
	},
	VersionUntold: {
		Level: slog.LevelWarn, Text: "lock: this server does not tell its version, so PUBLISH is used. Other clients may not hear such messages",
		Attrs:  []string{"server", "error"},
		Advice: "if INFO was refused, give the user the right to it (lock/SERVERS.md), or set cluster.Options.PubSub",
		Each:   []string{"server"}, Most: 1, Every: day,
	},
	PublishingChosen: {
		Level: slog.LevelInfo, Text: "lock: how releases are published was chosen by the versions of the Cluster's masters",
		Attrs: []string{"command", "versions"},
		When:  "when the way has changed",
		Most:  10, Every: time.Minute,
	},
	WaitsForOther: {
		Level: slog.LevelWarn, Text: "lock: still waiting for a lock that another owner has",
		Attrs:  []string{"name", "waited", "holder", "label"},
		Advice: "if this is too long, look at the process that holds the lock",
		When:   "after 10 s or more",
		Most:   1, Every: time.Minute,
	},
	WaitsForItself: {
		Level: slog.LevelWarn, Text: "lock: still waiting for a lock that this client itself holds",
		Attrs:  []string{"name", "waited"},
		Advice: "unlock the lock, or use the context of its Held to re-enter",
		When:   "after 10 s, once for each call",
		Most:   5, Every: time.Minute,
	},
	CloseWaits: {
		Level: slog.LevelWarn, Text: "lock: Close still waits, because locks are held or calls are under way",
		Attrs:  []string{"held", "name", "waited"},
		Advice: "unlock each lock when Held.Done is closed, and give Close a context with a deadline",
		When:   "after 10 s, once for each Close. `name` is one of the locks",
		Most:   5, Every: time.Minute,
	},
	HeldDropped: {
		Level: slog.LevelWarn, Text: "lock: a Held was dropped without Unlock, so its lock is not renewed any more",
		Attrs: []string{"name"}, Advice: "unlock every Held",
		When: "with DropForgotten",
		Most: 5, Every: time.Minute,
	},
	HookPanicked: {
		Level: slog.LevelError, Text: "lock: a hook panicked. The client continues",
		Attrs: []string{"name", "panic", "stack"}, Advice: "correct the hook",
		Most: 5, Every: time.Minute,
	},
	CheckAdvice: {
		Level: slog.LevelInfo, Text: "lock: Check has advice",
		Attrs: []string{"server", "advice"},
		Each:  []string{"server", "advice"}, Most: 1, Every: time.Minute,
	},
}

// Row returns the row of r.
func (r Record) Row() Row { return table[r] }

// All returns every Record, in the order of the table.
func All() []Record {
	all := make([]Record, 0, records-1)
	for r := Record(1); r < records; r++ {
		all = append(all, r)
	}
	return all
}

// counted returns the values of the attributes in Each. Records are counted per such text.
func (r *Row) counted(values []any) string {
	var b strings.Builder
	for i, value := range values {
		if slices.Contains(r.Each, r.Attrs[i]) {
			fmt.Fprintf(&b, "%v\x00", value)
		}
	}
	return b.String()
}
