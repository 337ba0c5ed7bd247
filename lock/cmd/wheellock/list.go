package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

const (
	listPage  = 100 // keys that SCAN looks at in one call
	listGroup = 20  // locks that are asked about in one pipeline, so that Redis serves others in between
	listShown = 3   // holders of a lock that are shown
)

// listed is a lock that list shows; its JSON is a promise.
type listed struct {
	Name    string   `json:"name"`
	Quoted  bool     `json:"quoted,omitempty"` // the name is no UTF-8, and stands here as a quoted Go string
	Kind    string   `json:"kind"`             // mutex, fenced, fair, read or write
	TTL     *float64 `json:"ttl_s,omitempty"`  // seconds; left out if the key has no TTL
	Holds   int64    `json:"holds"`            // how many holds there are
	Holders []holder `json:"holders"`          // some of them
	Waiting int64    `json:"waiting"`          // clients that wait
}

// list is the subcommand.
func (p *program) list(args []string) (int, error) {
	var s servers
	fs := newFlags("list [flags]", "Says which locks are held, by whom, and how many clients wait.")
	s.register(fs)
	prefix := fs.String("prefix", "", "what the `names` of locks begin with")
	limit := fs.Int("limit", 0, "stop after so `many` locks (default all)")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	names, err := p.parse(fs, args)
	switch {
	case err == nil && len(names) > 0:
		err = usagef("list: there is no argument %q: list takes only flags", names[0])
	case err == nil && *limit < 0:
		err = usagef("list: -limit is %d: it must not be negative", *limit)
	case err == nil:
		err = p.settle(&s)
	}
	if err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l := lister{prefix: *prefix, limit: *limit, sharded: s.isCluster(), seen: map[string]bool{}, show: func(x listed) error {
		if !*asJSON {
			_, err := fmt.Fprint(p.out, x)
			return err
		}
		if !utf8.ValidString(x.Name) {
			x.Name, x.Quoted = strconv.Quote(x.Name), true
		}
		text, err := json.Marshal(x)
		if err == nil {
			_, err = fmt.Fprintf(p.out, "%s\n", text)
		}
		return err
	}}
	return 0, s.eachMaster(ctx, func(conn redis.Conn) error { return l.server(ctx, conn) })
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
		fmt.Fprintf(&b, ", held by %s", printable(h.ID))
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
	sharded bool // releases may be published on the channel of a slot
	show    func(listed) error

	seen   map[string]bool // shown: SCAN may return a key twice
	before bool            // the server is older than HRANDFIELD
}

func (l *lister) done() bool { return l.limit > 0 && len(l.seen) >= l.limit }

// server shows the locks of a server.
func (l *lister) server(ctx context.Context, conn redis.Conn) error {
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
		if err := l.page(conn, keys); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
	return nil
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// page shows the locks among keys.
func (l *lister) page(conn redis.Conn, keys []string) error {
	types, err := pipeline(conn, keys, func(key string) [][]any { return [][]any{{"TYPE", key}} })
	if err != nil {
		return err
	}
	var hashes []string
	for i, key := range keys {
		if kind, _ := redis.String(types[i][0], nil); kind == "hash" && !l.seen[key] {
			hashes = append(hashes, key)
		}
	}
	for len(hashes) > 0 && !l.done() {
		group := hashes[:min(listGroup, len(hashes))]
		hashes = hashes[len(group):]
		answers, err := pipeline(conn, group, l.questions)
		if err != nil {
			return err
		}
		for i, key := range group {
			if refused, ok := answers[i][0].(redis.Error); ok && !l.before && strings.HasPrefix(refused.Error(), "ERR unknown command") {
				l.before = true
				return l.page(conn, keys)
			}
			x, ok, err := read(key, answers[i])
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

// questions are what is asked about a hash. None takes longer the larger the hash is.
func (l *lister) questions(key string) [][]any {
	some := []any{"HRANDFIELD", key, listShown + 1, "WITHVALUES"} // one of them may be the mode
	if l.before {
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

// beside is the key, or the channel, that Redisson has for a lock.
func beside(what, name string) string {
	if strings.Contains(name, "{") {
		return what + ":" + name
	}
	return what + ":{" + name + "}"
}

// read reads the answers of questions. It returns false if the hash is gone, or no lock.
func read(key string, answers []any) (x listed, isLock bool, err error) {
	for _, a := range answers[:4] {
		if refused, ok := a.(redis.Error); ok {
			if strings.HasPrefix(refused.Error(), "WRONGTYPE") { // it is another key since
				return x, false, nil
			}
			return x, false, refused
		}
	}
	some, _ := redis.Values(answers[0], nil)
	if len(some) == 2 { // of HSCAN, or one field
		if pairs, ok := some[1].([]any); ok {
			some = pairs
		}
	}
	fields, _ := redis.Strings(some, nil) // they are strings
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
		seconds := (time.Duration(ttl) * time.Millisecond).Seconds()
		x.TTL = &seconds
	}
	// Without the rights to these it shows less.
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

// readHolder reads a field of a hash. It returns false if that is no hold of a lock.
func readHolder(field, value string) (holder, bool) {
	count, err := strconv.Atoi(value)
	// The client's id is 36 bytes long, in Redisson as here.
	if err != nil || len(field) < 38 || field[36] != ':' {
		return holder{}, false
	}
	id, writing := strings.CutSuffix(field, ":write")
	return holder{id, count, writing}, true
}

// pipeline asks about each key, and returns the answers to the questions about each.
func pipeline(conn redis.Conn, keys []string, questions func(key string) [][]any) ([][]any, error) {
	asked := make([]int, len(keys))
	for i, key := range keys {
		all := questions(key)
		asked[i] = len(all)
		for _, q := range all {
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

// unanswered is err, as what nobody knows if it is no answer.
func unanswered(err error) error {
	var refused redis.Error
	if errors.As(err, &refused) {
		return err
	}
	return &lock.UnknownError{Op: "list", Err: err}
}

// checkList says which rights list would need that the user does not have. Nothing else needs
// them, so it is no fault.
func (p *program) checkList(ctx context.Context, s *servers, prefix string) error {
	missing := map[string]bool{}
	l := &lister{sharded: s.isCluster()}
	err := s.eachMaster(ctx, func(conn redis.Conn) error {
		answers, err := pipeline(conn, []string{prefix + "wheellock_check"}, func(key string) [][]any {
			return append([][]any{{"SCAN", 0, "COUNT", 1}, {"TYPE", key}}, l.questions(key)...)
		})
		if err != nil {
			return err
		}
		asked := append([][]any{{"SCAN"}, {"TYPE"}}, l.questions(prefix+"wheellock_check")...)
		for i, a := range answers[0] {
			if refused, ok := a.(redis.Error); ok && strings.HasPrefix(refused.Error(), "NOPERM") {
				missing[asked[i][0].(string)] = true
			}
		}
		return nil
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = fmt.Fprintf(p.out, "wheellock list would need the rights to %s too.\n", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	return err
}
