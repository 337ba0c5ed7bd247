package pubsub_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// told records the calls of a Follower's function.
type told struct {
	mu    sync.Mutex
	calls []string
}

func (f *told) tell(name string, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if missed {
		name += " missed"
	}
	f.calls = append(f.calls, name)
}

// take returns the calls since the last take, sorted.
func (f *told) take() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.calls = nil }()
	slices.Sort(f.calls)
	return strings.Join(f.calls, ", ")
}

// takeOnce is take without repetitions: whether the end of a subscription and its return are one call
// or two depends on the scheduler.
func (f *told) takeOnce() string {
	return strings.Join(slices.Compact(strings.Split(f.take(), ", ")), ", ")
}

// following runs f with a Follower whose channels are the names, at sub.
func following(t *testing.T, f func(t *testing.T, srv *server, follower *pubsub.Follower, told *told)) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return sub, name }, told.tell)
		defer run(follower)()
		f(t, srv, follower, &told)
	})
}

// run runs a Follower until end is called.
func run(follower *pubsub.Follower) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follower.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestAFollowerTellsOfMessagesAndOfWhatMayHaveBeenMissed(t *testing.T) {
	following(t, func(t *testing.T, srv *server, follower *pubsub.Follower, told *told) {
		follower.Follow("a")
		follower.Follow("b")
		require.Equal(t, "a missed, b missed", told.take(), "there may have been messages before")
		srv.publish("a")
		require.Equal(t, "a", told.take())
		srv.publish("c")
		follower.Follow("a")
		require.Empty(t, told.take(), "nothing is new")

		srv.commands.Add(1) // another server may be behind the name
		time.Sleep(5 * time.Second)
		require.Equal(t, "a missed, b missed", told.takeOnce(), "the connection is another one")
		srv.publish("b")
		require.Equal(t, "b", told.take())

		follower.Leave("a")
		srv.publish("a")
		srv.publish("b")
		require.Equal(t, "b", told.take())
	})
}

func TestAFollowerThatComesBackHasMissedMessages(t *testing.T) {
	for pause, what := range map[time.Duration]string{0: "at once", time.Second: "while it is subscribed", time.Minute: "later"} {
		following(t, func(t *testing.T, srv *server, follower *pubsub.Follower, told *told) {
			follower.Follow("a")
			require.Equal(t, "a missed", told.take())
			follower.Leave("a")
			synctest.Wait()
			srv.publish("a")
			synctest.Wait()
			time.Sleep(pause)
			follower.Follow("a")
			require.Equal(t, "a missed", told.take(), what)
		})
	}
}

// No message can have been missed then. But Follow promises a call, for which its caller may wait.
func TestAFollowerThatIsBackBeforeItHasLeftIsToldToo(t *testing.T) {
	following(t, func(t *testing.T, srv *server, follower *pubsub.Follower, told *told) {
		follower.Follow("a")
		require.Equal(t, "a missed", told.take())
		follower.Leave("a")
		follower.Follow("a")
		require.Equal(t, "a missed", told.take())
		srv.publish("a")
		require.Equal(t, "a", told.take())
	})
}

func TestAFollowerGoesWithAKeyToAnotherServer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var place *pubsub.Subscriber
		ctx, cancel := context.WithCancel(context.Background())
		other := pubsub.New(ctx, pubsub.Config{
			Timeout: time.Second, Modes: srv.heard, Epoch: srv.epoch.Load, Where: func() string { return "there" },
			Dial: srv.dial,
		})
		defer other.Close()
		defer cancel()
		var mu sync.Mutex
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) {
			mu.Lock()
			defer mu.Unlock()
			return place, name
		}, told.tell)
		defer run(follower)()
		follower.Follow("a")
		require.Empty(t, told.take(), "its place is not known")
		mu.Lock()
		place = sub
		mu.Unlock()
		follower.Relocate()
		require.Equal(t, "a missed", told.take())
		mu.Lock()
		place = other
		mu.Unlock()
		follower.Relocate()
		require.Equal(t, "a missed", told.takeOnce(), "the key was moved before anybody listened at the other server")
		srv.publish("a")
		require.Equal(t, "a", told.take())
		n, _ := other.Heard("a")
		require.EqualValues(t, 1, n)
	})
}

func TestAFollowerThatEndsLeavesAllChannels(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return sub, name }, told.tell)
		end := run(follower)
		for i := range 100 {
			follower.Follow(fmt.Sprint("a", i))
		}
		told.take()
		end()
		follower.Follow("b")
		follower.Leave("a1")
		srv.publish("a1")
		time.Sleep(10 * time.Second)
		require.Empty(t, told.take())
		for i := range 100 {
			_, subscribed := sub.Heard(fmt.Sprint("a", i))
			require.False(t, subscribed)
		}
	})
}

// If the function is slow, news come later, and none are lost.
func TestASlowFunctionOfAFollowerLosesNoNews(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return sub, name },
			func(name string, missed bool) {
				time.Sleep(time.Second)
				told.tell(name, missed)
			})
		defer run(follower)()
		follower.Follow("a")
		follower.Follow("b")
		time.Sleep(10 * time.Second)
		require.Equal(t, "a missed, b missed", told.take())
		srv.publish("a")
		synctest.Wait() // the function runs
		srv.publish("a")
		srv.publish("b")
		srv.publish("b")
		time.Sleep(10 * time.Second)
		require.Equal(t, "a, a, b", told.take())
	})
}

// For a while it is not known where messages come. Messages of that time are missed.
func TestAFollowerHasMissedWhatCameWhileThePlaceWasNotKnown(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		var unknown atomic.Bool
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) {
			if unknown.Load() {
				return nil, ""
			}
			return sub, name
		}, told.tell)
		defer run(follower)()
		follower.Follow("a")
		require.Equal(t, "a missed", told.take())
		unknown.Store(true)
		follower.Relocate()
		require.Equal(t, "a missed", told.take(), "from now on")
		time.Sleep(10 * time.Second)
		_, subscribed := sub.Heard("a")
		require.False(t, subscribed)
		unknown.Store(false)
		follower.Relocate()
		require.Equal(t, "a missed", told.take())
	})
}

// A user that asks seldom because messages come must be told when they come no more.
func TestAFollowerTellsOnceThatItListensNoMore(t *testing.T) {
	following(t, func(t *testing.T, srv *server, follower *pubsub.Follower, told *told) {
		follower.Follow("a")
		require.Equal(t, "a missed", told.take())
		require.NoError(t, srv.Kill())
		time.Sleep(time.Minute)
		require.Equal(t, "a missed", told.take())
		follower.Follow("b")
		time.Sleep(time.Minute)
		require.Empty(t, told.take(), "nothing has changed")
		require.NoError(t, srv.Restart(context.Background()))
		time.Sleep(10 * time.Second)
		require.Equal(t, "a missed, b missed", told.take())
	})
}

// A message says nothing of whether the next one will come.
func TestAFollowerTellsThatItListensNoMoreBesideAMessage(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return sub, name },
			func(name string, missed bool) {
				told.tell(name, missed)
				time.Sleep(time.Minute)
			})
		defer run(follower)()
		follower.Follow("a")
		follower.Follow("b")
		time.Sleep(5 * time.Minute)
		require.Equal(t, "a missed, b missed", told.take())
		srv.publish("b")
		synctest.Wait() // the function runs
		srv.publish("a")
		synctest.Wait()
		require.NoError(t, srv.Kill())
		time.Sleep(5 * time.Minute)
		require.Equal(t, "a, a missed, b, b missed", told.take())
		require.NoError(t, srv.Restart(context.Background()))
	})
}

func TestAFollowerThatLeavesANameLeavesItsChannel(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return sub, name }, told.tell)
		defer run(follower)()
		follower.Follow("a")
		follower.Follow("b")
		told.take()
		follower.Leave("a")
		time.Sleep(10 * time.Second)
		_, subscribed := sub.Heard("a")
		require.False(t, subscribed)
		_, subscribed = sub.Heard("b")
		require.True(t, subscribed)
	})
}

// If a message came and another may have been missed, only the message is told, because it says more.
func TestAFollowerTellsOfAMessageThatCameWhenOthersMayHaveBeenMissed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return sub, name },
			func(name string, missed bool) {
				told.tell(name, missed)
				time.Sleep(time.Minute)
			})
		defer run(follower)()
		follower.Follow("a")
		follower.Follow("b")
		synctest.Wait() // the function runs for one of them
		srv.commands.Add(1)
		time.Sleep(10 * time.Second) // the connection is another one
		for _, name := range []string{"a", "b"} {
			srv.publish(name)
		}
		time.Sleep(5 * time.Minute)
		calls := told.take()
		require.Contains(t, []string{"a, a missed, b", "a, b, b missed"}, calls)
	})
}

// The goroutine of a Follower looks at a name once for all that has happened, and at no other name.
func TestAFollowerLooksOnceForManyMessages(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var told told
		looks := map[string]int{}
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) {
			looks[name]++
			return sub, name
		}, func(name string, missed bool) {
			told.tell(name, missed)
			time.Sleep(time.Second)
		})
		defer run(follower)()
		looked := func() map[string]int {
			time.Sleep(time.Minute)
			synctest.Wait()
			defer clear(looks)
			return maps.Clone(looks)
		}
		follower.Follow("a")
		follower.Follow("b")
		looked()
		require.Equal(t, "a missed, b missed", told.take())
		srv.publish("a")
		synctest.Wait() // the function runs
		for range 100 {
			srv.publish("a")
		}
		require.Equal(t, map[string]int{"a": 2}, looked())
		require.Equal(t, "a, a", told.take())
		srv.publish("b")
		synctest.Wait() // the function runs
		for range 100 {
			follower.Relocate()
		}
		require.Equal(t, map[string]int{"a": 1, "b": 2}, looked())
		follower.Follow("a")
		require.Empty(t, looked(), "it is followed already")
	})
}

func TestAFollowerForgetsTheNamesThatItLeaves(t *testing.T) {
	following(t, func(t *testing.T, srv *server, follower *pubsub.Follower, told *told) {
		follower.Follow("a")
		follower.Follow("b")
		told.take()
		require.Equal(t, 2, follower.Names())
		late := follower.WakeOf("a")
		follower.Leave("a")
		synctest.Wait()
		require.Equal(t, 1, follower.Names())

		// A message may wake the name while the Follower leaves its channel. The name may be followed
		// again before the Follower looks.
		follower.Follow("a")
		late()
		told.take()
		require.Equal(t, 2, follower.Names())
		follower.Leave("a")
		synctest.Wait()
		srv.publish("a")
		require.Empty(t, told.take())
	})
}

// The end of a Follower waits for the call that is under way, and not for later ones.
func TestAFollowerThatEndsCallsItsFunctionNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var calls atomic.Int32
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return sub, name },
			func(string, bool) {
				calls.Add(1)
				time.Sleep(time.Minute)
			})
		end := run(follower)
		for i := range 100 {
			follower.Follow(fmt.Sprint("a", i))
		}
		time.Sleep(90 * time.Second)
		require.EqualValues(t, 2, calls.Load())
		end()
		require.EqualValues(t, 2, calls.Load())
	})
}
