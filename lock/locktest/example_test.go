package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// A test of a service passes its *testing.T and runs in synctest.Test, where the waits take
// no time.
func Example() {
	t := new(fakeT) // stands for the *testing.T
	defer t.end()
	ctx := context.Background()

	srv := locktest.NewServer(t)
	service := srv.Client(lock.Config{Lease: time.Second})
	rival := srv.Client(lock.Config{}) // as of another process

	held, _ := service.Mutex("job:7").Lock(ctx)
	_, err := rival.Mutex("job:7").TryLock(ctx)
	fmt.Println("a rival is refused:", err != nil, srv.Locks())

	work := held.Context(ctx)
	srv.Delete("job:7")
	<-work.Done()
	fmt.Println(context.Cause(work))
	// Output:
	// a rival is refused: true [job:7]
	// lock: "job:7" is lost: not the owner any more: stop the work that needs the lock, because another owner may have it
}

// A holder that is cut off learns that its lock is lost before another client can take it.
func ExampleLink_Cut() {
	t := new(fakeT)
	defer t.end()
	ctx := context.Background()

	srv := locktest.NewServer(t)
	link := srv.Link()
	held, _ := link.Client(lock.Config{Lease: time.Second}).Mutex("job:7").Lock(ctx)
	link.Cut()
	theirs, _ := srv.Client(lock.Config{}).Mutex("job:7").Lock(ctx)
	fmt.Println("told:", held.Err())
	fmt.Println("its token is the older one:", held.Token() < theirs.Token())
	// Output:
	// told: lock: "job:7" is lost: no renewal was acknowledged in time: stop the work that needs the lock, and check that Redis answers
	// its token is the older one: true
}

// The test of a service counts the calls to Redis. For each job there is one script to lock and
// one to unlock.
func ExampleServer_Calls() {
	t := new(fakeT)
	defer t.end()
	srv := locktest.NewServer(t)
	jobs := srv.Client(lock.Config{}) // the service's
	for i := range 10 {
		_ = jobs.Mutex(fmt.Sprint("job:", i)).Do(context.Background(), func(context.Context, *lock.Held) error { return nil })
	}
	calls := srv.Calls()
	fmt.Println(calls["acquire"], calls["release"])
	// Output: 10 10
}

// The server has taken the lock, and the answer is lost. The test looks at what the service does
// then. The library releases a lock that it may have taken.
func ExampleLink_CutAfter() {
	t := new(fakeT)
	defer t.end()
	ctx := context.Background()

	srv := locktest.NewServer(t)
	link := srv.Link()
	link.CutAfter("acquire")
	_, err := link.Client(lock.Config{}).Mutex("job:7").TryLock(ctx)
	fmt.Println("unknown:", errors.Is(err, lock.ErrUnknown), link.Calls()["acquire"])
	_, err = srv.Client(lock.Config{}).Mutex("job:7").Lock(ctx)
	fmt.Println("another client has it:", err == nil)
	// Output:
	// unknown: true 1
	// another client has it: true
}

// fakeT stands for a *testing.T, because examples have none.
type fakeT struct {
	fatal    string
	cleanups []func()
}

func (f *fakeT) Helper()          {}
func (f *fakeT) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	panic(errors.New(f.fatal))
}

func (f *fakeT) end() {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
}
