package keeper_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/keeper"
)

// sessions are the devices that this process serves.
type sessions struct {
	mu     sync.Mutex
	tokens map[string]int64 // fencing tokens, by device
}

func (s *sessions) begin(_ context.Context, name string, held *lock.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[name] = held.Token()
}

func (s *sessions) end(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, name)
	if err == nil {
		_ = name // still locked: the state of the session is saved here
	}
}

func (s *sessions) await(n int) {
	for {
		s.mu.Lock()
		have := len(s.tokens)
		s.mu.Unlock()
		if have == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// 50,000 devices, on 4 processes. A device connects to any of them, which then wants its session.
// No session has a goroutine. The example has two processes and a hundred devices.
func ExampleKeeper_sessions() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	start := func() (*keeper.Keeper, *sessions, func()) {
		client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
		if err != nil {
			log.Fatal(err)
		}
		s := &sessions{tokens: map[string]int64{}}
		k, err := keeper.New(client, keeper.Config{Taken: s.begin, Ended: s.end})
		if err != nil {
			log.Fatal(err)
		}
		return k, s, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := k.Close(ctx); err != nil {
				log.Print(err)
			}
			client.Close(ctx)
		}
	}
	a, sessionsOfA, endA := start()
	b, sessionsOfB, endB := start()
	for i := range 100 {
		if err := a.Want(fmt.Sprint("device:", i)); err != nil { // it connects
			log.Print(err)
		}
	}
	sessionsOfA.await(100)
	a.Drop("device:7")                         // it leaves
	if err := b.Want("device:7"); err != nil { // and comes back, to another process
		log.Print(err)
	}
	sessionsOfB.await(1)
	sessionsOfA.await(99)
	fmt.Println("kept:", a.Stats().Kept, b.Stats().Kept)
	endA()
	endB()
	fmt.Println("left in Redis:", locksIn(server))
	// Output:
	// kept: 99 1
	// left in Redis: 0
}

// 256 shards of a queue, as many per process as is fair. A process consumes a shard as long as
// it keeps its name. The deployment tells each process how many processes there are.
func ExampleKeeper_SetMost() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	const shards = 256
	consume := func(ctx context.Context, name string, held *lock.Held) {
		for held.Valid() {
			select {
			case <-ctx.Done():
				return // and the shard is given back
			case <-time.After(10 * time.Millisecond): // a message of the shard
			}
		}
	}
	k, err := keeper.New(client, keeper.Config{Taken: consume, Most: shards})
	if err != nil {
		log.Fatal(err)
	}
	for i := range shards {
		if err := k.Want(fmt.Sprint("shard:", i)); err != nil {
			log.Fatal(err)
		}
	}
	await := func(kept int) {
		for s := k.Stats(); s.Kept != kept || s.Ending > 0; s = k.Stats() {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("kept:", kept)
	}
	await(256)
	k.SetMost((shards + 3 - 1) / 3) // two processes join
	await(86)
	if err := k.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	client.Close(context.Background())
	// Output:
	// kept: 256
	// kept: 86
}

// A leader and its standby. The leader is the process that keeps the name.
func ExampleKeeper_leader() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	leads := make(chan string)
	start := func(process string) (end func()) {
		client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
		if err != nil {
			log.Fatal(err)
		}
		lead := func(ctx context.Context, _ string, held *lock.Held) {
			leads <- process
			for held.Valid() {
				select {
				case <-ctx.Done():
					return
				case <-time.After(10 * time.Millisecond): // a piece of the leader's work
				}
			}
		}
		k, err := keeper.New(client, keeper.Config{Taken: lead})
		if err != nil {
			log.Fatal(err)
		}
		if err := k.Want("leader"); err != nil {
			log.Fatal(err)
		}
		return func() {
			if err := k.Close(context.Background()); err != nil {
				log.Print(err)
			}
			client.Close(context.Background())
		}
	}
	endA := start("a")
	fmt.Println(<-leads, "leads")
	endB := start("b")
	endA() // a new version is rolled out
	fmt.Println(<-leads, "leads")
	endB()
	// Output:
	// a leads
	// b leads
}

// locksIn counts the locks in server, without the counter of tokens.
func locksIn(server *miniredis.Miniredis) (n int) {
	for _, key := range server.Keys() {
		if kind := server.Type(key); kind == "hash" {
			n++
		}
	}
	return n
}
