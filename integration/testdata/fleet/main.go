// Command fleet is a process of a fleet that shares locks. It is built from two commits, so it uses
// only what both have. integration/fleet_test.go starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

var (
	side     = flag.String("side", "", "which commit it is built from")
	servers  = flag.String("servers", "", "host:port of the server, or of several nodes of a Cluster")
	witness  = flag.String("witness", "", "host:port of the server that is told who is inside")
	user     = flag.String("user", "", "of the servers")
	password = flag.String("password", "", "of the servers")
	prefix   = flag.String("prefix", "", "of the names")
	kind     = flag.String("kind", "", "mutex, fair, rw or permits")
	rounds   = flag.Int("rounds", 0, "of each goroutine")
	duration = flag.Duration("for", 0, "how long goroutines take turns of equal length, instead of -rounds")
	callers  = flag.Int("goroutines", 4, "of this process")
)

const (
	lease = 3 * time.Second
	// No waiter tries by itself in the time that the test has: it must be woken.
	poll = 10 * time.Minute
)

func main() {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, *side+":", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := connect(lock.Config{KeyPrefix: *prefix, Lease: lease, MaxPoll: poll, UnlockTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	// Some locks of its own, which both sides renew by scripts of theirs.
	var own []*lock.Held
	for i := range 20 {
		held, err := client.Mutex(fmt.Sprint("own:", os.Getpid(), ":", i)).Lock(ctx)
		if err != nil {
			return err
		}
		own = append(own, held)
	}
	began := time.Now()
	errs := make(chan error, *callers)
	var all sync.WaitGroup
	for g := range *callers {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := contend(ctx, client, g); err != nil {
				errs <- err
			}
		}()
	}
	all.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	time.Sleep(max(0, lease+lease/2-time.Since(began)))
	for _, held := range own {
		if !held.Valid() {
			return fmt.Errorf("%s is lost: %w", held.Name(), held.Err())
		}
		if err := held.Unlock(ctx); err != nil {
			return err
		}
	}
	return client.Close(ctx)
}

func connect(cfg lock.Config) (*lock.Client, error) {
	addrs := strings.Split(*servers, ",")
	login := []redis.DialOption{redis.DialUsername(*user), redis.DialPassword(*password)}
	if len(addrs) == 1 {
		return lock.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addrs[0], login...)
		}}, cfg)
	}
	t, err := cluster.New(&redisc.Cluster{StartupNodes: addrs, DialOptions: login}, cluster.Options{})
	if err != nil {
		return nil, err
	}
	return lock.NewTopology(t, cfg)
}

// contend takes and gives back the lock that all processes fight for. Every tenth of the rounds is longer.
func contend(ctx context.Context, client *lock.Client, g int) error {
	told, err := redis.Dial("tcp", *witness)
	if err != nil {
		return err
	}
	defer told.Close()
	began := time.Now()
	for round := 0; round < *rounds || time.Since(began) < *duration; round++ {
		take, mode := client.Mutex("contended").Lock, "alone"
		switch *kind {
		case "fair":
			take = client.FairMutex("contended").Lock
		case "rw":
			if take = client.RWMutex("contended").Writer().Lock; (g+round)%3 > 0 {
				take, mode = client.RWMutex("contended").Reader().Lock, "reader"
			}
		case "permits":
			n := int64(1 + (g+round)%2)
			take, mode = func(ctx context.Context) (*lock.Held, error) {
				return client.PermitSemaphore("contended").Acquire(ctx, n)
			}, fmt.Sprint("permits", n)
		}
		held, err := take(ctx)
		if err != nil {
			return err
		}
		if _, err := enter.Do(told, "inside", "log", mode, *side, held.Token()); err != nil {
			return err
		}
		switch {
		case *duration > 0:
			time.Sleep(5 * time.Millisecond)
		case round%10 == 9:
			time.Sleep(40 * time.Millisecond)
		default:
			time.Sleep(time.Millisecond)
		}
		if !held.Valid() {
			log.Println(*side, "lost", held.Err())
		}
		if _, err := leave.Do(told, "inside", mode); err != nil {
			return err
		}
		if err := held.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// enter records a process that is inside, and whether another one excludes it. There are three permits.
var enter = redis.NewScript(2, `
local alone, readers, permits = tonumber(redis.call('HGET', KEYS[1], 'alone') or 0), tonumber(redis.call('HGET', KEYS[1], 'reader') or 0), tonumber(redis.call('HGET', KEYS[1], 'permits') or 0)
local mode, n = ARGV[1], 1
if string.sub(mode, 1, 7) == 'permits' then
	n = tonumber(string.sub(mode, 8))
	mode = 'permits'
end
local fault = ''
if alone > 0 or mode == 'alone' and readers > 0 or mode == 'permits' and permits + n > 3 then
	fault = ' beside ' .. alone .. ' alone, ' .. readers .. ' readers, ' .. permits .. ' permits'
end
redis.call('HINCRBY', KEYS[1], mode, n)
redis.call('RPUSH', KEYS[2], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. fault)
return 1`)

var leave = redis.NewScript(1, `
local mode, n = ARGV[1], 1
if string.sub(mode, 1, 7) == 'permits' then
	n = tonumber(string.sub(mode, 8))
	mode = 'permits'
end
return redis.call('HINCRBY', KEYS[1], mode, -n)`)
