package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// A test of a service hands its *testing.T in, and runs in synctest.Test, where
// what this waits for takes no time.
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
	// lock: "job:7" is lost: not the owner any more: stop the work that needs it, another owner may have it
}

// The holder that is cut off is told before anybody else can have its lock.
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
	// told: lock: "job:7" is lost: no renewal was acknowledged in time: stop the work that needs it, and check that Redis answers
	// its token is the older one: true
}

// fakeT stands for a *testing.T, which examples have not.
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
