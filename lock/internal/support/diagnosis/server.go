package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/lock/topology"
)

// Config says what a client needs from its servers.
type Config struct {
	Traits         topology.Traits // the zero Traits for a client of one server
	IOTimeout      time.Duration   // of one round trip
	Replicas       int             // how many replicas must have a write, within ReplicaTimeout
	ReplicaTimeout time.Duration

	Counter func(name string) string // the key of the counter of a lock's tokens
	Tagged  func(name string) string // a name with a hash tag, in the slot of a name that has none
	// The errors for the user if the outcome is unknown, and if too few replicas answer.
	Unknown       func(name string, err error) error
	NotReplicated error
}

// Check tries on a server all that the client needs, on connections of its own. It returns
// the problems and the advice. name is the name of a lock on that server. When ctx ends,
// Check returns the findings up to then.
func Check(ctx context.Context, cfg *Config, s *servers.Server, name string) (problems, advice []Finding) {
	names := Names{Name: name, Tagged: name}
	if !strings.Contains(name, "{") {
		names.Tagged = cfg.Tagged(name)
	}
	ck := &check{cfg: cfg, server: s, name: name, names: names, bound: dialing.NewBound(1)}
	ck.run(ctx)
	return ck.report.Findings()
}

// check asks one server. One goroutine uses it.
type check struct {
	cfg          *Config
	server       *servers.Server
	name         string // of a lock that is on the server
	names        Names
	bound        *dialing.Bound
	conn         redis.Conn // nil while there is none
	unanswered   int        // round trips in a row that got no answer
	usesSPublish bool       // releases are published with SPUBLISH there
	report       Report
}

// maxUnanswered is the number of round trips without an answer after which a server is not
// asked any more.
const maxUnanswered = 2

// run asks all questions and records the answers in the report. Each question reports whether the next one
// can be asked.
func (ck *check) run(ctx context.Context) {
	defer ck.hangUp()
	for _, ask := range []func(context.Context) bool{
		ck.greet, ck.settings, ck.scripts, ck.checkOneServer, ck.replicas, ck.cluster, ck.subscribe,
	} {
		if ctx.Err() != nil || !ask(ctx) {
			return
		}
	}
}

// do sends one command, over a new connection if the last one failed.
func (ck *check) do(ctx context.Context, cmd string, args ...any) (any, error) {
	return ck.doFor(ctx, ck.cfg.IOTimeout, cmd, args...)
}

// doFor is do for a command that may take d.
func (ck *check) doFor(ctx context.Context, d time.Duration, cmd string, args ...any) (any, error) {
	if ck.conn == nil {
		conn, _, err := ck.server.Dial(ctx, ck.bound)
		if err != nil {
			ck.unanswered = maxUnanswered
			return nil, err
		}
		ck.conn = conn
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	reply, err := pipe.RoundTrip(ctx, ck.conn, cmd, args...)
	if _, refused := err.(redis.Error); err != nil && !refused {
		ck.hangUp()
		ck.unanswered++
	} else {
		ck.unanswered = 0
	}
	return reply, err
}

func (ck *check) hangUp() {
	if ck.conn != nil {
		ck.conn.Close()
		ck.conn = nil
	}
}

// isAnswered reports whether the server answered. If err is an error of the connection, it
// becomes a problem.
func (ck *check) isAnswered(ctx context.Context, what string, err error) bool {
	if _, refused := err.(redis.Error); err == nil || refused {
		return true
	}
	switch {
	case ctx.Err() != nil: // the end of ctx is the cause
	case isUnreadable(err):
		ck.report.Problem(fmt.Sprintf("the answer to %s cannot be read: connect to Redis directly, or make the proxy in front of it answer in RESP2 if no client has "+
			"sent HELLO 3", what), ck.unknown(err))
	default:
		ck.report.Problem(fmt.Sprintf("%s got no answer: check that the server runs, that a proxy or firewall in front of it lets this command through, and that "+
			"Config.IOTimeout (%v) is long enough", what, ck.cfg.IOTimeout), ck.unknown(err))
	}
	return false
}

func (ck *check) unknown(err error) error {
	return ck.cfg.Unknown(ck.name, err)
}

// mayAskMore reports whether the server has answered often enough to be asked more.
func (ck *check) mayAskMore() bool { return ck.unanswered < maxUnanswered }

// greet asks the first questions of a connection.
func (ck *check) greet(ctx context.Context) bool {
	_, err := ck.do(ctx, "PING")
	if _, refused := err.(redis.Error); err != nil && !refused {
		switch {
		case ctx.Err() != nil: // the end of ctx is the cause
		case ck.report.State(err): // the login was refused
		case strings.Contains(err.Error(), "No such master with that name"): // from a Sentinel
			ck.report.Problem("the Sentinels watch no master of that name: see the names in SENTINEL MASTERS, and give one (?master=NAME in the URL, or "+
				"sentinel.Config.Master)", ck.unknown(err))
		case errors.Is(err, servers.ErrNoServer):
			ck.report.Problem("no server is known for the locks, or for some slots: check that the addresses are right and "+
				"the servers run, and in a Cluster that every slot has a master (CLUSTER INFO)", ck.unknown(err))
		default:
			ck.report.Problem("the server cannot be reached: check that it runs at this address, and that it uses TLS if and only if the URL is rediss://", ck.unknown(err))
		}
		return false
	}
	if err != nil && ck.conn == nil { // the dial was refused
		if !ck.report.State(err) {
			ck.report.Problem("the server refuses the connection: check the user, the password, the database and TLS", err)
		}
		return false
	}
	if ck.report.State(err) {
		return false
	}
	ck.report.Command(Core, "ping", err)
	_, err = ck.do(ctx, "TIME")
	if ck.isAnswered(ctx, "TIME", err) {
		ck.report.Command(Core, "time", err)
	}
	return ck.mayAskMore()
}

// settings asks how the server is set up.
func (ck *check) settings(ctx context.Context) bool {
	reply, err := ck.do(ctx, "INFO")
	info, _ := redis.String(reply, err) // "" if INFO was refused
	if strings.Contains(info, "redis_mode:sentinel") {
		ck.report.Sentinel()
		return false
	}
	switch _, refused := err.(redis.Error); {
	case ctx.Err() != nil:
	case isUnreadable(err):
		ck.isAnswered(ctx, "INFO", err)
	case err != nil && !refused:
		ck.report.Problem("the server ends the connection or does not answer when it is asked for INFO, as do proxies that spread keys over several servers "+
			"(twemproxy): connect to Redis directly, or use package lock/cluster", ck.unknown(err))
	case !ck.report.Refused(Core, "info", err):
		ck.report.Settings(info, ck.cfg.Traits.Slots)
	}
	if t := ck.cfg.Traits; t.Slots {
		ck.usesSPublish = t.PubSub == topology.PubSubSharded || t.PubSub == topology.PubSubAuto && servers.Shards(servers.VersionOf(info))
	}
	if PersistsByAOF(info) {
		values, err := redis.Strings(ck.do(ctx, "CONFIG", "GET", "appendfsync"))
		ck.report.Appendfsync(strings.Join(values[min(1, len(values)):], ""), err)
	}
	return ck.mayAskMore()
}

// scripts tries the commands that scripts call.
func (ck *check) scripts(ctx context.Context) bool {
	// With only a key the script does nothing.
	_, bySHA := ck.do(ctx, "EVALSHA", script.Check.SHA(), 1, ck.name)
	if !ck.isAnswered(ctx, "EVALSHA", bySHA) {
		return ck.mayAskMore()
	}
	_, asText := ck.do(ctx, "EVAL", script.Check.Text(), 1, ck.name)
	if !ck.isAnswered(ctx, "EVAL", asText) {
		return ck.mayAskMore()
	}
	ck.report.Command(Core, "evalsha", bySHA)
	ck.report.Command(Core, "eval", asText)
	run := []any{"EVAL", script.Check.Text()}
	switch {
	case asText == nil:
	case bySHA == nil: // the script was loaded
		run = []any{"EVALSHA", script.Check.SHA()}
	default:
		if !ck.elsewhere(asText) {
			ck.report.Key(Key{Group: Core, Name: ck.name}, asText)
			ck.report.Untried(asText)
		}
		return ck.mayAskMore()
	}
	eval := func(keys []string, args ...any) (any, error) {
		words := append(run[1:2:2], len(keys))
		for _, key := range keys {
			words = append(words, key)
		}
		return ck.do(ctx, run[0].(string), append(words, args...)...)
	}
	calls := Calls(ck.names, ck.usesSPublish)
	reply, err := eval([]string{ck.name}, Args(calls)...)
	if !ck.isAnswered(ctx, "a script", err) || ck.elsewhere(err) {
		return ck.mayAskMore()
	}
	if err != nil {
		ck.report.Untried(err)
		return ck.mayAskMore()
	}
	answers, _ := reply.([]any)
	ck.report.Tried(calls, answers)
	for _, key := range Keys(ck.names, ck.cfg.Counter(ck.name)) {
		_, err := eval([]string{ck.name, key.Name})
		if !ck.isAnswered(ctx, "a script", err) || ck.elsewhere(err) {
			return ck.mayAskMore()
		}
		ck.report.Key(key, err)
	}
	if asText != nil {
		return ck.mayAskMore()
	}
	return ck.undeclared(ctx)
}

// undeclared tries a script with a key that its call does not name. It renews a read hold that is
// not there, so it changes nothing.
func (ck *check) undeclared(ctx context.Context) bool {
	reply, err := ck.do(ctx, "EVAL", script.RwRenew.Text(), 1, ck.name, 1, "check:", 1, 0)
	if !ck.isAnswered(ctx, "a script", err) || ck.elsewhere(err) {
		return ck.mayAskMore()
	}
	if holds, _ := reply.([]any); len(holds) == 1 {
		if refusal, _ := holds[0].([]any); len(refusal) == 2 {
			text, _ := redis.String(refusal[1], nil)
			err = redis.Error(text)
		}
	}
	if !ck.elsewhere(err) {
		ck.report.Undeclared(err)
	}
	return ck.mayAskMore()
}

// elsewhere reports whether the server says that it does not have all keys of a script, and
// records that.
func (ck *check) elsewhere(err error) bool {
	v, _ := pipe.VerdictOf(err, true, ck.server.Name())
	switch {
	case err == nil, v != pipe.Elsewhere && v != pipe.Parted && !pipe.OfCluster(err):
		return false
	case ck.cfg.Traits.Slots:
		ck.report.Advice("slots of its Cluster are being moved, so not everything was tried: check again when the move is over", err)
	default:
		ck.report.Problem(ofCluster, err)
	}
	return true
}

// checkOneServer finds out whether more than one server answers.
func (ck *check) checkOneServer(ctx context.Context) bool {
	if ck.cfg.Traits.Slots {
		return true
	}
	first := ""
	for i := range 8 { // a proxy chooses the server by the key
		name := fmt.Sprintf("%s:%d", ck.name, i)
		reply, err := redis.Values(ck.do(ctx, "EVAL", script.Uptime.Text(), 1, name))
		if err != nil || len(reply) < 2 {
			return ck.mayAskMore() // the server does not tell its run id
		}
		id, _ := redis.String(reply[1], nil)
		if first == "" {
			first = id
		}
		if id != first {
			ck.report.Problem("several servers answer at this address, as behind a proxy that spreads keys, so scripts do not find their keys: " +
				"connect to Redis directly, or use package lock/cluster")
			return true
		}
	}
	return true
}

// replicas finds out whether a write reaches as many replicas as Config.Replicas demands.
func (ck *check) replicas(ctx context.Context) bool {
	cfg := ck.cfg
	if cfg.Replicas == 0 {
		return true
	}
	n, err := redis.Int(ck.doFor(ctx, cfg.IOTimeout+cfg.ReplicaTimeout, "WAIT", cfg.Replicas, wire.Milliseconds(cfg.ReplicaTimeout)))
	if !ck.isAnswered(ctx, "WAIT", err) {
		return ck.mayAskMore()
	}
	if ck.report.Command(Core, "wait", err) && n < cfg.Replicas {
		ck.report.Problem(fmt.Sprintf("Config.Replicas is %d, and %d replicas answered within Config.ReplicaTimeout (%v): connect more, "+
			"or set another number", cfg.Replicas, n, cfg.ReplicaTimeout), cfg.NotReplicated)
	}
	return true
}

// cluster tries the questions for a node of a Cluster.
func (ck *check) cluster(ctx context.Context) bool {
	if !ck.cfg.Traits.Slots {
		return true
	}
	_, err := ck.do(ctx, "ASKING")
	if ck.isAnswered(ctx, "ASKING", err) {
		ck.report.Command(Core, "asking", err)
	}
	_, err = ck.do(ctx, "CLUSTER", "SLOTS")
	if ck.isAnswered(ctx, "CLUSTER SLOTS", err) {
		ck.report.Command(Core, "cluster slots", err)
	}
	_, err = ck.do(ctx, "CLUSTER", "NODES")
	if _, refused := err.(redis.Error); refused {
		ck.report.Advice("the user may not run cluster nodes, so if nodes disagree about slots, the client follows the majority: "+
			"give it the right, ACL SETUSER <user> +cluster|nodes", err)
	}
	return ck.mayAskMore()
}

// subscribe tries to subscribe to each channel and to end that. It sends no message and waits for none.
func (ck *check) subscribe(ctx context.Context) bool {
	ck.hangUp() // a connection that subscribes does nothing else
	subscribe, unsubscribe := "subscribe", "unsubscribe"
	if ck.usesSPublish {
		subscribe, unsubscribe = "ssubscribe", "sunsubscribe"
	}
	for _, channel := range Channels(ck.names, ck.usesSPublish) {
		_, err := ck.do(ctx, strings.ToUpper(subscribe), channel.Name)
		if !ck.isAnswered(ctx, strings.ToUpper(subscribe), err) {
			return ck.mayAskMore()
		}
		ck.report.Channel(channel, subscribe, err)
		if _, refused := err.(redis.Error); refused {
			continue
		}
		_, err = ck.do(ctx, strings.ToUpper(unsubscribe), channel.Name)
		if !ck.isAnswered(ctx, strings.ToUpper(unsubscribe), err) {
			return ck.mayAskMore()
		}
		ck.report.Command(Core, unsubscribe, err)
	}
	return true
}

// ofCluster says what to do about a server that is one of several.
const ofCluster = "the server is a node of a Redis Cluster, and the client was made for one server: give a Topology of package lock/cluster to " +
	"lock.NewTopology or, if this server has all slots, a Config.KeyPrefix with a hash tag, such as \"{app}:\""
