package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/diagnosis"
	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/script"
)

// check asks one server, for Client.Check, and is used by one goroutine.
type check struct {
	c      *Client
	server *servers.Server
	name   string // of a lock that is on the server
	bound  *dialing.Bound
	conn   redis.Conn // nil while there is none
	silent int        // round trips that got no answer
	report diagnosis.Report
}

// maxSilent is after how many round trips without an answer a server is not asked any
// further.
const maxSilent = 2

func newCheck(c *Client, s *servers.Server, name string) *check {
	return &check{c: c, server: s, name: name, bound: dialing.NewBound(1)}
}

// run asks all. What it finds is in the report.
func (ck *check) run(ctx context.Context) {
	defer ck.hangUp()
	for _, ask := range []func(context.Context) bool{
		ck.greet, ck.settings, ck.scripts, ck.proxy, ck.replicas, ck.cluster, ck.subscribe,
	} {
		if !ask(ctx) || ctx.Err() != nil {
			return
		}
	}
}

// do sends one command, over a new connection if the last one failed.
func (ck *check) do(ctx context.Context, cmd string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, ck.c.cfg.IOTimeout)
	defer cancel()
	if ck.conn == nil {
		conn, _, err := ck.server.Dial(ctx, ck.bound)
		if err != nil {
			ck.silent = maxSilent
			return nil, err
		}
		ck.conn = conn
	}
	reply, err := pipe.RoundTrip(ctx, ck.conn, cmd, args...)
	if _, refused := err.(redis.Error); err != nil && !refused {
		ck.hangUp()
		ck.silent++
	}
	return reply, err
}

func (ck *check) hangUp() {
	if ck.conn != nil {
		ck.conn.Close()
		ck.conn = nil
	}
}

// answered reports whether err is none of the connection, and otherwise makes a problem
// of it.
func (ck *check) answered(ctx context.Context, what string, err error) bool {
	if _, refused := err.(redis.Error); err == nil || refused {
		return true
	}
	if ctx.Err() == nil { // otherwise it is ctx that has ended it
		ck.report.Problem(fmt.Sprintf("%s got no answer: see that it runs, that what stands before it lets this through, and that "+
			"Config.IOTimeout (%v) is long enough", what, ck.c.cfg.IOTimeout), ck.unknown(err))
	}
	return false
}

func (ck *check) unknown(err error) error {
	return &UnknownError{Op: "check", Name: ck.name, Err: err}
}

// goesOn reports whether the server is to be asked more.
func (ck *check) goesOn() bool { return ck.silent < maxSilent }

// greet asks what a connection asks first.
func (ck *check) greet(ctx context.Context) bool {
	_, err := ck.do(ctx, "PING")
	var refused redis.Error
	if err != nil && !errors.As(err, &refused) {
		if ctx.Err() == nil {
			ck.report.Problem("it is not reached: see that it runs, and at this address", ck.unknown(err))
		}
		return false
	}
	if err != nil && ck.conn == nil { // the dial was refused
		if !ck.report.State(err) {
			ck.report.Problem("it refuses the connection: see that the user, the password, the database and TLS are right", err)
		}
		return false
	}
	if ck.report.State(err) {
		return false
	}
	ck.report.Command(diagnosis.Core, "ping", err)
	_, err = ck.do(ctx, "TIME")
	if ck.answered(ctx, "TIME", err) {
		ck.report.Command(diagnosis.Core, "time", err)
	}
	return ck.goesOn()
}

// settings asks how the server is set up.
func (ck *check) settings(ctx context.Context) bool {
	info, err := redis.String(ck.do(ctx, "INFO"))
	switch _, refused := err.(redis.Error); {
	case refused && ck.report.Refused(diagnosis.Core, "info", err):
	case refused || err == nil:
		ck.report.Settings(info, ck.c.scripts.traits.Slots)
	case errors.Is(err, redis.ErrNil):
		ck.report.Settings("", ck.c.scripts.traits.Slots)
	case ctx.Err() != nil:
	case ck.conn == nil:
		ck.report.Problem("it ends the connection, or is silent, when it is asked for INFO, as proxies do that spread keys over several servers "+
			"(twemproxy): connect to Redis itself, or use package lock/cluster", ck.unknown(err))
	}
	if diagnosis.PersistsByAOF(info) {
		values, err := redis.Strings(ck.do(ctx, "CONFIG", "GET", "appendfsync"))
		ck.report.Appendfsync(strings.Join(values[min(1, len(values)):], ""), err)
	}
	return ck.goesOn()
}

// scripts tries what scripts call.
func (ck *check) scripts(ctx context.Context) bool {
	sharded := ck.c.scripts.traits.ShardedPubSub
	// With a key and nothing else the script does nothing.
	_, bySHA := ck.do(ctx, "EVALSHA", script.Check.SHA(), 1, ck.name)
	if !ck.answered(ctx, "EVALSHA", bySHA) {
		return ck.goesOn()
	}
	_, asText := ck.do(ctx, "EVAL", script.Check.Text(), 1, ck.name)
	if !ck.answered(ctx, "EVAL", asText) {
		return ck.goesOn()
	}
	ck.report.Command(diagnosis.Core, "evalsha", bySHA)
	ck.report.Command(diagnosis.Core, "eval", asText)
	run := []any{"EVALSHA", script.Check.SHA()}
	switch {
	case asText == nil:
		run = []any{"EVAL", script.Check.Text()}
	case bySHA != nil:
		if pipe.OfCluster(asText) {
			ck.ofCluster(asText)
		} else if !ck.report.Key(diagnosis.Key{Group: diagnosis.Core, Name: ck.name}, asText) {
			ck.report.Untried(asText)
		}
		return ck.goesOn()
	}
	eval := func(keys []string, args ...any) (any, error) {
		words := append(run[1:2:2], len(keys))
		for _, key := range keys {
			words = append(words, key)
		}
		return ck.do(ctx, run[0].(string), append(words, args...)...)
	}
	calls := diagnosis.Calls(ck.name, sharded)
	answers, err := redis.Values(eval([]string{ck.name}, diagnosis.Args(calls)...))
	if !ck.answered(ctx, "a script", err) {
		return ck.goesOn()
	}
	if err != nil {
		ck.report.Untried(err)
		return ck.goesOn()
	}
	ck.report.Tried(calls, answers)
	counter, _ := ck.c.scripts.counterOf(mutexKind, ck.name)
	for _, key := range diagnosis.Keys(ck.name, counter) {
		_, err := eval([]string{ck.name, key.Name})
		if !ck.answered(ctx, "a script", err) {
			return ck.goesOn()
		}
		if pipe.OfCluster(err) {
			ck.ofCluster(err)
			return ck.goesOn()
		}
		ck.report.Key(key, err)
	}
	return ck.goesOn()
}

// ofCluster notes that the server says what nodes of a Cluster alone do.
func (ck *check) ofCluster(err error) {
	if ck.c.scripts.traits.Slots {
		ck.report.Advice("slots of its Cluster are just moving, so not all was tried: try again when that is done", err)
		return
	}
	ck.report.Problem(ofCluster, err)
}

// proxy looks whether one server alone answers.
func (ck *check) proxy(ctx context.Context) bool {
	if ck.c.scripts.traits.Slots {
		return true
	}
	first := ""
	for i := range 8 { // a proxy chooses the server by the key
		name := fmt.Sprintf("%s:%d", ck.name, i)
		reply, err := redis.Values(ck.do(ctx, "EVAL", script.Uptime.Text(), 1, name))
		if err != nil || len(reply) != 2 {
			return ck.goesOn() // it does not tell
		}
		id, _ := redis.String(reply[1], nil)
		if first == "" {
			first = id
		}
		if id != first {
			ck.report.Problem("several servers answer at this address, as behind a proxy that spreads keys, so a script does not find its keys: " +
				"connect to Redis itself, or use package lock/cluster")
			return true
		}
	}
	return true
}

// replicas looks whether as many replicas have what is written as Config.Replicas wants.
func (ck *check) replicas(ctx context.Context) bool {
	cfg := &ck.c.cfg
	if cfg.Replicas == 0 {
		return true
	}
	n, err := redis.Int(ck.do(ctx, "WAIT", cfg.Replicas, ms(cfg.ReplicaTimeout)))
	if !ck.answered(ctx, "WAIT", err) {
		return ck.goesOn()
	}
	if ck.report.Command(diagnosis.Core, "wait", err) && n < cfg.Replicas {
		ck.report.Problem(fmt.Sprintf("Config.Replicas is %d, and %d replicas answered within Config.ReplicaTimeout (%v): connect more, "+
			"or set another number", cfg.Replicas, n, cfg.ReplicaTimeout), ErrNotReplicated)
	}
	return true
}

// cluster tries what a node of a Cluster is asked.
func (ck *check) cluster(ctx context.Context) bool {
	if !ck.c.scripts.traits.Slots {
		return true
	}
	_, err := ck.do(ctx, "ASKING")
	if ck.answered(ctx, "ASKING", err) {
		ck.report.Command(diagnosis.Core, "asking", err)
	}
	_, err = ck.do(ctx, "CLUSTER", "SLOTS")
	if ck.answered(ctx, "CLUSTER SLOTS", err) {
		ck.report.Command(diagnosis.Core, "cluster slots", err)
	}
	_, err = ck.do(ctx, "CLUSTER", "NODES")
	var refused redis.Error
	if errors.As(err, &refused) {
		ck.report.Advice("the user may not run cluster nodes, so of two slot tables the client believes what most nodes say: "+
			"give it the right, ACL SETUSER <user> +cluster|nodes", err)
	}
	return ck.goesOn()
}

// subscribe tries to subscribe, and whether a message arrives.
func (ck *check) subscribe(ctx context.Context) bool {
	ck.hangUp() // a connection that subscribes does nothing else
	sharded := ck.c.scripts.traits.ShardedPubSub
	subscribe, unsubscribe := "subscribe", "unsubscribe"
	if sharded {
		subscribe, unsubscribe = "ssubscribe", "sunsubscribe"
	}
	for _, channel := range diagnosis.Channels(ck.name, sharded) {
		_, err := ck.do(ctx, strings.ToUpper(subscribe), channel.Name)
		if !ck.answered(ctx, strings.ToUpper(subscribe), err) {
			return ck.goesOn()
		}
		ck.report.Channel(channel, subscribe, err)
		if _, refused := err.(redis.Error); refused {
			continue
		}
		_, err = ck.do(ctx, strings.ToUpper(unsubscribe), channel.Name)
		if !ck.answered(ctx, strings.ToUpper(unsubscribe), err) {
			return ck.goesOn()
		}
		ck.report.Command(diagnosis.Core, unsubscribe, err)
	}
	return true
}

// ofCluster is what to do about a server that is one of several.
const ofCluster = "it is a node of a Redis Cluster, and the client was made for one server: give a Topology of package lock/cluster to " +
	"lock.NewTopology or, if this server has all slots, Config.KeyPrefix \"{" + keys.Counter + "}:\""
