package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/diagnosis"
)

const (
	listPage  = 100 // keys that SCAN looks at in one call
	listGroup = 20  // locks in one pipeline; few, so that Redis serves other clients in between
	listShown = 3   // holders of a lock that are shown
	maxPasses = 3   // how often list goes through a Cluster whose slots are being moved
)

// listed is a lock that list shows. Programs read its JSON: fields stay as they are.
type listed struct {
	Name    string   `json:"name"`
	Quoted  bool     `json:"quoted,omitempty"` // Name is a quoted Go string, because the name is not UTF-8
	Kind    string   `json:"kind"`             // mutex, fenced, fair, read or write
	TTL     *float64 `json:"ttl_s,omitempty"`  // seconds; left out if the key has no TTL
	Holds   int64    `json:"holds"`            // how many holds there are
	Holders []holder `json:"holders"`          // some of them
	Waiting int64    `json:"waiting"`          // clients that wait
}

// list is the subcommand list.
func (p *program) list(args []string) (int, error) {
	var s servers
	fs := newFlags("list [flags]", "Says which locks are held, by whom, and how many clients wait.")
	s.register(fs)
	limit := fs.Int("limit", 0, "stop after `N` locks (default all)")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	names, err := p.parse(fs, args)
	switch {
	case err == nil && len(names) > 0:
		err = usagef("list: unexpected argument %q: list takes only flags", names[0])
	case err == nil && *limit < 0:
		err = usagef("list: -limit is %d: it must not be negative", *limit)
	case err == nil:
		err = p.settle(&s, false)
	}
	if err != nil {
		return 0, err
	}
	l := lister{prefix: s.prefix, limit: *limit, sharded: s.isCluster(), seen: map[string]bool{}, show: func(x listed) error {
		if !*asJSON {
			return p.print(x)
		}
		quote(&x.Name, &x.Quoted)
		return p.printJSON(x, x.Holders, "")
	}}
	complete, err := l.listServers(context.Background(), &s)
	if err == nil && !complete {
		p.say("slots of the Cluster are being moved, so some locks may be missing: list again when the move is over")
	}
	return 0, s.explain(err)
}

// listServers shows the locks of all servers. complete is false if keys left their servers even during the
// last of maxPasses passes.
func (l *lister) listServers(ctx context.Context, s *servers) (complete bool, err error) {
	for range maxPasses {
		l.moved = false
		err := s.eachMaster(ctx, func(conn redis.Conn) (bool, error) {
			err := l.listServer(ctx, conn)
			return !l.done(), err
		})
		if err != nil || !l.moved {
			return true, err
		}
	}
	return false, nil
}

func (x listed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", printable(x.Name), x.Kind)
	if x.TTL == nil {
		b.WriteString(", lease without end")
	} else {
		fmt.Fprintf(&b, ", %.1f s left", *x.TTL)
	}
	if x.Waiting > 0 {
		fmt.Fprintf(&b, ", %d waiting", x.Waiting)
	}
	for _, h := range x.Holders {
		fmt.Fprintf(&b, ", held by %v", h)
		if h.Count > 1 {
			fmt.Fprintf(&b, " %d times", h.Count)
		}
	}
	if more := x.Holds - int64(len(x.Holders)); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String() + "\n"
}

// lister goes through the keys of servers.
type lister struct {
	// immutable
	prefix  string
	limit   int  // 0: none
	sharded bool // the servers are a Cluster; releases may be published on sharded channels
	show    func(listed) error

	seen       map[string]bool // shown: SCAN may return a key twice
	isBefore62 bool            // the server is older than Redis 6.2 and does not have HRANDFIELD
	moved      bool            // a key had left the server on which SCAN found it
}

func (l *lister) done() bool { return l.limit > 0 && len(l.seen) >= l.limit }

// listServer shows the locks of a server.
func (l *lister) listServer(ctx context.Context, conn redis.Conn) error {
	cursor := "0"
	for !l.done() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		scan := []any{cursor, "COUNT", listPage}
		if l.prefix != "" {
			scan = append(scan, "MATCH", globEscaper.Replace(l.prefix)+"*")
		}
		var keys []string
		reply, err := redis.Values(conn.Do("SCAN", scan...))
		if err == nil {
			_, err = redis.Scan(reply, &cursor, &keys)
		}
		if err != nil {
			return unanswered(err)
		}
		if err := l.showPage(conn, keys); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
	return nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// showPage shows the locks among the names that SCAN has returned.
func (l *lister) showPage(conn redis.Conn, names []string) error {
	types, err := l.pipeline(conn, names, func(key string) [][]any { return [][]any{{"TYPE", key}} })
	if err != nil {
		return err
	}
	var hashes []string
	for i, key := range names {
		switch kind := types[i][0].(type) {
		case redis.Error:
			if isElsewhere(kind) {
				l.moved = true
			} else if !diagnosis.LacksKey(kind) { // list shows no keys that this user may not read
				return kind
			}
		case string:
			if kind == "hash" && !l.seen[key] && !keys.IsBeside(key) {
				hashes = append(hashes, key)
			}
		}
	}
	for len(hashes) > 0 && !l.done() {
		group := hashes[:min(listGroup, len(hashes))]
		hashes = hashes[len(group):]
		answers, err := l.pipeline(conn, group, l.questions)
		if err != nil {
			return err
		}
		for i, key := range group {
			if refused, ok := answers[i][0].(redis.Error); ok && !l.isBefore62 && strings.HasPrefix(refused.Error(), "ERR unknown command") {
				l.isBefore62 = true
				return l.showPage(conn, names)
			}
			if slices.ContainsFunc(answers[i][:4], isElsewhere) { // another pass finds it; the other answers are about further keys
				l.moved = true
				continue
			}
			x, ok, err := parseListed(key, answers[i])
			if err != nil {
				return err
			}
			if !ok || l.done() || l.seen[key] {
				continue
			}
			l.seen[key] = true
			if err := l.show(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// questions returns the commands that ask about a hash. None of them takes longer for a
// larger hash.
func (l *lister) questions(key string) [][]any {
	some := []any{"HRANDFIELD", key, listShown + 1, "WITHVALUES"} // one of them may be the mode
	if l.isBefore62 {
		some = []any{"HSCAN", key, 0, "COUNT", listShown + 1}
	}
	all := [][]any{
		some,
		{"PTTL", key},
		{"HGET", key, "mode"},
		{"HLEN", key},
		{"EXISTS", beside("redisson_lock_token", key)},
		{"LLEN", beside("redisson_lock_queue", key)},
	}
	for _, channel := range []string{"redisson_lock__channel", "redisson_rwlock"} {
		all = append(all, []any{"PUBSUB", "NUMSUB", beside(channel, key)})
		if l.sharded {
			all = append(all, []any{"PUBSUB", "SHARDNUMSUB", beside(channel, key)})
		}
	}
	return all
}

// beside returns the name of a second key, or of a channel, that Redisson has for a lock.
func beside(what, name string) string {
	if strings.Contains(name, "{") {
		return what + ":" + name
	}
	return what + ":{" + name + "}"
}

// parseListed reads the answers to questions. It returns false if the hash is gone or is no lock.
func parseListed(key string, answers []any) (x listed, isLock bool, err error) {
	for _, a := range answers[:4] {
		if refused, ok := a.(redis.Error); ok {
			if strings.HasPrefix(refused.Error(), "WRONGTYPE") { // another key has this name by now
				return x, false, nil
			}
			return x, false, refused
		}
	}
	some, _ := redis.Values(answers[0], nil)
	if len(some) == 2 { // the reply of HSCAN, or one field with its value
		if pairs, ok := some[1].([]any); ok {
			some = pairs
		}
	}
	fields, _ := redis.Strings(some, nil) // fields and values are always strings
	if len(fields) == 0 {
		return x, false, nil
	}
	ttl, _ := redis.Int64(answers[1], nil)
	mode, _ := redis.String(answers[2], nil)
	holds, _ := redis.Int64(answers[3], nil)
	x = listed{Name: key, Kind: "mutex", Holds: holds}
	if mode == "read" || mode == "write" {
		x.Kind, x.Holds = mode, holds-1
	}
	for i := 0; i+1 < len(fields) && len(x.Holders) < listShown; i += 2 {
		if fields[i] == "mode" && x.Kind != "mutex" {
			continue
		}
		h, ok := readHolder(fields[i], fields[i+1])
		if !ok {
			return x, false, nil
		}
		x.Holders = append(x.Holders, h)
	}
	switch ttl {
	case -2:
		return x, false, nil
	case -1:
	default:
		seconds := float64(ttl) / 1000
		x.TTL = &seconds
	}
	// Without the rights to the following commands, list shows less.
	if n, err := redis.Int64(answers[4], nil); err == nil && n > 0 && x.Kind == "mutex" {
		x.Kind = "fenced"
	}
	for _, a := range answers[6:] {
		if said, err := redis.Values(a, nil); err == nil && len(said) == 2 {
			n, _ := redis.Int64(said[1], nil)
			x.Waiting += n
		}
	}
	if n, err := redis.Int64(answers[5], nil); err == nil && n > 0 && x.Kind == "mutex" {
		x.Kind, x.Waiting = "fair", n
	}
	return x, len(x.Holders) > 0, nil
}

// readHolder reads a field of a hash. It returns false if the field is no hold of a lock.
func readHolder(field, value string) (holder, bool) {
	count, err := strconv.Atoi(value)
	// A client's id is as long in Redisson as in package lock.
	if err != nil || len(field) < owner.IDLen+2 || field[owner.IDLen] != ':' {
		return holder{}, false
	}
	id, writing := strings.CutSuffix(field, ":write")
	return holder{ID: id, Label: owner.Label(field), Count: count, Writing: writing}, true
}

// isElsewhere reports whether the answer says that another node of the Cluster has the key.
func isElsewhere(answer any) bool {
	refused, _ := answer.(redis.Error)
	code, _, _ := strings.Cut(string(refused), " ")
	return code == "MOVED" || code == "ASK" || code == "TRYAGAIN"
}

// pipeline sends the questions about all keys at once, and returns the answers for each key. In a
// Cluster it sends ASKING before each, so that a node also answers about a slot that is being moved to it.
func (l *lister) pipeline(conn redis.Conn, keys []string, questions func(key string) [][]any) ([][]any, error) {
	asked := make([]int, len(keys))
	for i, key := range keys {
		all := questions(key)
		asked[i] = len(all)
		for _, q := range all {
			if l.sharded {
				if err := conn.Send("ASKING"); err != nil {
					return nil, unanswered(err)
				}
			}
			if err := conn.Send(q[0].(string), q[1:]...); err != nil {
				return nil, unanswered(err)
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, unanswered(err)
	}
	answers := make([][]any, len(keys))
	for i := range keys {
		for range asked[i] {
			if l.sharded {
				if _, err := conn.Receive(); err != nil && !isRefusal(err) {
					return nil, unanswered(err)
				}
			}
			a, err := conn.Receive()
			var refused redis.Error
			if errors.As(err, &refused) {
				a, err = refused, nil
			}
			if err != nil {
				return nil, unanswered(err)
			}
			answers[i] = append(answers[i], a)
		}
	}
	return answers, nil
}

// unanswered returns err if Redis answered, and else a lock.UnknownError.
func unanswered(err error) error {
	if isRefusal(err) {
		return err
	}
	return &lock.UnknownError{Op: "list", Err: err}
}

// isRefusal reports whether err is an answer of Redis.
func isRefusal(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused)
}

// checkList prints the rights that list needs and the user does not have: commands, and the keys of
// queues and tokens. Only list needs them, so a missing right is no fault.
func (p *program) checkList(ctx context.Context, s *servers) error {
	missing := map[string]bool{}
	l := &lister{sharded: s.isCluster()}
	key := s.prefix + "wheellock_check"
	questions := append([][]any{{"SCAN", 0, "COUNT", 1}, {"TYPE", key}}, l.questions(key)...)
	err := s.eachMaster(ctx, func(conn redis.Conn) (bool, error) {
		answers, err := l.pipeline(conn, []string{key}, func(string) [][]any { return questions })
		if err != nil {
			return false, err
		}
		for i, a := range answers[0] {
			refused, _ := a.(error)
			switch {
			case diagnosis.LacksCommand(refused):
				missing["+"+strings.ToLower(questions[i][0].(string))] = true
			case diagnosis.LacksKey(refused):
				missing["~"+strings.Replace(questions[i][1].(string), key, s.prefix+"*", 1)] = true
			}
		}
		return true, nil
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	return p.print("wheellock list would need these rights too: " + strings.Join(slices.Sorted(maps.Keys(missing)), " ") + "\n")
}
