package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// exampleClient returns a client of a Redis in memory. A service makes its own of
// its pool: lock.New(pool, lock.Config{}).
func exampleClient() (client *lock.Client, done func()) {
	server, err := redistest.StartMini(redistest.MiniOptions{})
	if err != nil {
		panic(err)
	}
	if client, err = lock.New(server.Pool(0), lock.Config{}); err != nil {
		panic(err)
	}
	return client, func() {
		client.Close(context.Background())
		server.Stop()
	}
}

func ExampleMutex_Lock() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	held, err := client.Mutex("order:42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	work := held.Context(ctx) // ends if the lock is lost
	fmt.Println("held:", held.Valid(), "work may go on:", work.Err() == nil)
	fmt.Println("unlocked:", held.Unlock(ctx) == nil, "work is over:", work.Err() != nil)
	// Output:
	// held: true work may go on: true
	// unlocked: true work is over: true
}

func ExampleMutex_TryLock() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	held, _ := client.Mutex("job").Lock(ctx)
	defer held.Unlock(ctx)

	_, err := client.Mutex("job").TryLock(ctx)
	var other *lock.HeldError
	switch {
	case errors.As(err, &other):
		fmt.Println("another holds it, for up to", other.TTL.Round(10*time.Second))
	case errors.Is(err, lock.ErrUnknown), errors.Is(err, lock.ErrNotSent):
		fmt.Println("Redis did not answer:", err)
	}
	// Output: another holds it, for up to 30s
}

// The context limits the wait but not the hold.
func ExampleMutex_Lock_wait() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	held, _ := client.Mutex("job").Lock(ctx)
	defer held.Unlock(ctx)

	wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := client.Mutex("job").Lock(wait)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, lock.ErrNotAcquired))
	// Output: true true
}

func ExampleHeld_Context_reentry() {
	client, done := exampleClient()
	defer done()
	mu := client.Mutex("account:7")
	transfer := func(ctx context.Context) error {
		return mu.Do(ctx, func(context.Context, *lock.Held) error { // re-enters: ctx carries the owner
			fmt.Println("inner")
			return nil
		})
	}
	err := mu.Do(context.Background(), func(ctx context.Context, _ *lock.Held) error {
		fmt.Println("outer")
		return transfer(ctx)
	})
	fmt.Println(err)
	// Output:
	// outer
	// inner
	// <nil>
}

func ExampleLostError() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	held, _ := client.Mutex("short").LockFor(ctx, 200*time.Millisecond)
	work := held.Context(ctx)
	<-work.Done() // before Redis gives the lock to another
	var lost *lock.LostError
	fmt.Println(errors.As(context.Cause(work), &lost), lost.Name, lost.Reason == lock.Expired)
	// Output: true short true
}

// The store refuses a holder whose lease ended while the holder was paused. For work that reads before it
// writes, see lock/examples/fencing.
func ExampleHeld_Token_fencing() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	// As SQL: UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?
	var stored struct {
		balance int
		token   int64
	}
	update := func(balance int, token int64) bool {
		if token < stored.token {
			return false
		}
		stored.balance, stored.token = balance, token
		return true
	}

	mu := client.Mutex("account:7")
	first, _ := mu.Lock(ctx)
	first.Unlock(ctx)
	second, _ := mu.Lock(ctx)
	defer second.Unlock(ctx)
	fmt.Println("second:", update(200, second.Token()), "and again:", update(201, second.Token()))
	fmt.Println("first, too late:", update(100, first.Token()))
	// Output:
	// second: true and again: true
	// first, too late: false
}

func ExampleHeld_Guard() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	held, _ := client.Mutex("counter:lock").Lock(ctx)
	reply, err := held.Guard(ctx, "INCRBY", []string{"counter"}, 5)
	fmt.Println(reply, err)

	client.Mutex("counter:lock").ForceUnlock(ctx)
	_, err = held.Guard(ctx, "INCRBY", []string{"counter"}, 5)
	fmt.Println(errors.Is(err, lock.ErrLost))
	// Output:
	// 5 <nil>
	// true
}

// A fixed lease is never renewed. The lock ends by itself, and its holder is told.
func ExampleMutex_LockFor() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	held, _ := client.Mutex("nightly").LockFor(ctx, 10*time.Second)
	fmt.Println(time.Until(held.Deadline()) < 10*time.Second)
	fmt.Println(held.Extend(ctx, time.Minute), time.Until(held.Deadline()) > 50*time.Second)
	fmt.Println(held.Unlock(ctx))
	// Output:
	// true
	// <nil> true
	// <nil>
}

// One of several replicas of a service runs the job. The others continue with
// their other work.
func ExampleMutex_TryLockFor() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	for replica := range 3 {
		held, err := client.Mutex("nightly").TryLockFor(ctx, time.Hour)
		switch {
		case err == nil:
			defer held.Unlock(ctx)
			fmt.Println("replica", replica, "runs the job")
		case errors.Is(err, lock.ErrNotAcquired):
			fmt.Println("replica", replica, "leaves it")
		}
	}
	// Output:
	// replica 0 runs the job
	// replica 1 leaves it
	// replica 2 leaves it
}

// The steps of a pipeline have no context in common, so each step names the
// owner.
func ExampleWithOwner() {
	client, done := exampleClient()
	defer done()
	mu := client.Mutex("account:7")
	step1 := lock.WithOwner(context.Background(), "worker-7")
	step2 := lock.WithOwner(context.Background(), "worker-7")
	outer, _ := mu.Lock(step1)
	inner, _ := mu.Lock(step2) // re-enters
	fmt.Println(outer.Count(), inner.Token() == outer.Token())
	_, err := mu.TryLock(lock.WithOwner(context.Background(), "worker-8"))
	fmt.Println(errors.Is(err, lock.ErrNotAcquired))
	fmt.Println(errors.Join(inner.Unlock(step2), outer.Unlock(step1)))
	// Output:
	// 2 true
	// true
	// <nil>
}

// Tokens come from the counter that Redisson's RFencedLock uses.
func ExampleClient_FencedMutex() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	mu := client.FencedMutex("account:7")
	for range 2 {
		held, err := mu.Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("token", held.Token())
		held.Unlock(ctx)
	}
	// Output:
	// token 1
	// token 2
}

func ExampleRWMutex() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	mu := client.RWMutex("catalog")
	first, _ := mu.Reader().Lock(ctx)
	second, _ := mu.Reader().Lock(ctx)
	_, err := mu.Writer().TryLock(ctx)
	fmt.Println("two read:", first.Valid() && second.Valid(), "nobody writes:", errors.Is(err, lock.ErrNotAcquired))
	first.Unlock(ctx)
	second.Unlock(ctx)
	fmt.Println(mu.Writer().Do(ctx, func(context.Context, *lock.Held) error { return nil }))
	// Output:
	// two read: true nobody writes: true
	// <nil>
}

// A writer also takes the lock for reading. After its writing it keeps reading,
// and others can read, too.
func ExampleRWMutex_downgrade() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	mu := client.RWMutex("catalog")
	writing, _ := mu.Writer().Lock(ctx)
	reading, _ := mu.Reader().Lock(writing.Context(ctx))
	writing.Unlock(ctx)
	other, err := mu.Reader().TryLock(ctx)
	fmt.Println(reading.Valid(), err)
	_, err = mu.Writer().Lock(reading.Context(ctx))
	fmt.Println(errors.Is(err, lock.ErrUpgrade))
	other.Unlock(ctx)
	reading.Unlock(ctx)
	// Output:
	// true <nil>
	// true
}

// Waiters get the lock in the order in which they came, whichever process they
// are in.
func ExampleClient_FairMutex() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	mu := client.FairMutex("ticket-counter")
	err := mu.Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		// Another owner waits in the queue until its context ends, and then leaves it.
		wait, cancel := context.WithTimeout(lock.WithoutOwner(ctx), 50*time.Millisecond)
		defer cancel()
		_, err := mu.Lock(wait)
		fmt.Println(errors.Is(err, context.DeadlineExceeded))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// This readiness check takes one round trip to Redis. It is for a service that can do nothing without
// locks. In a Cluster, it asks the one master that has this name. A liveness check should not ask
// Redis, because a restart of the process while Redis is down would only lose its locks.
func ExampleMutex_IsLocked_readiness() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	ready := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := client.Mutex("ready").IsLocked(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	ask := func() int { // what the kubelet does
		answer := httptest.NewRecorder()
		ready(answer, httptest.NewRequest(http.MethodGet, "/ready", nil))
		return answer.Code
	}
	fmt.Println(ask())
	server.Close()
	fmt.Println(ask())
	// Output:
	// 200
	// 503
}
