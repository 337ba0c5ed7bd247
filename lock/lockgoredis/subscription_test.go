package lockgoredis_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/lockgoredis"
)

// firstPause is how long a provider that has failed is not asked.
const firstPause = 100 * time.Millisecond

// provider is a StreamingCredentialsProvider whose Subscribe is a function.
type provider func(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error)

func (p provider) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return p(l)
}

// dialled returns the password that a dial limited to a second gets, and how long it waits.
func dialled(t *testing.T, credentials func(context.Context) (string, string, error)) (password string, waited time.Duration, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, password, err = credentials(ctx)
	return password, time.Since(began), err
}

// requireDialled checks that dialled returns the password want after the time wait.
func requireDialled(t *testing.T, credentials func(context.Context) (string, string, error), want string, wait time.Duration) {
	t.Helper()
	password, waited, err := dialled(t, credentials)
	require.NoError(t, err)
	require.Equal(t, want, password)
	require.Equal(t, wait, waited)
}

// TestADialWaitsForTheFirstCredentials until its context ends. All dials wait for one Subscribe.
func TestADialWaitsForTheFirstCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, answer := 0, make(chan struct{})
		credentials := lockgoredis.NewSubscription(provider(func(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
			calls++
			<-answer
			return auth.NewBasicCredentials("app", "first"), nil, nil
		}))
		for range 3 {
			_, waited, err := dialled(t, credentials)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.EqualError(t, err, "the StreamingCredentialsProvider has not answered: context deadline exceeded")
			require.Equal(t, time.Second, waited)
		}
		time.AfterFunc(300*time.Millisecond, func() { close(answer) })
		requireDialled(t, credentials, "first", 300*time.Millisecond)
		require.Equal(t, 1, calls)
	})
}

// TestAProviderThatFailsIsAskedAfterLongerAndLongerPauses, from 100 ms to 3.2 s. After an answer the
// pauses begin again at 100 ms.
func TestAProviderThatFailsIsAskedAfterLongerAndLongerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		var pauses []time.Duration
		failure := errors.New("the token service is down")
		credentials := lockgoredis.NewSubscription(provider(func(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			if failure != nil {
				return nil, nil, failure
			}
			return auth.NewBasicCredentials("app", "first"), nil, nil
		}))
		for len(pauses) < 8 {
			_, _, err := dialled(t, credentials)
			require.ErrorIs(t, err, failure)
		}
		const ms = time.Millisecond
		require.Equal(t, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 3200 * ms}, pauses[1:])
		failure = nil
		time.Sleep(2600 * ms)
		requireDialled(t, credentials, "first", 600*ms)

		failure = errors.New("the token service is down again")
		pauses = nil
		requireDialled(t, credentials, "first", 0)
		requireDialled(t, credentials, "first", 0)
		require.Len(t, pauses, 1)
		time.Sleep(firstPause)
		requireDialled(t, credentials, "first", 0)
		require.Equal(t, firstPause, pauses[1])
	})
}

// TestTheNewestCredentialsStayInUse while the provider hangs, fails or tells errors.
func TestTheNewestCredentialsStayInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told auth.CredentialsListener
		hang := make(chan struct{})
		answers := func() (auth.Credentials, error) { return auth.NewBasicCredentials("app", "first"), nil }
		credentials := lockgoredis.NewSubscription(provider(func(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
			c, err := answers()
			told = l
			return c, func() error { return errors.New("not ended") }, err
		}))
		requireDialled(t, credentials, "first", 0)
		told.OnNext(auth.NewBasicCredentials("app", "second"))
		told.OnNext(nil)
		told.OnError(errors.New("no third"))

		answers = func() (auth.Credentials, error) { return nil, nil }
		requireDialled(t, credentials, "second", 0)
		time.Sleep(time.Minute)
		answers = func() (auth.Credentials, error) { return nil, errors.New("no third") }
		requireDialled(t, credentials, "second", 0)
		time.Sleep(time.Minute)
		answers = func() (auth.Credentials, error) { <-hang; return auth.NewBasicCredentials("app", "fourth"), nil }
		requireDialled(t, credentials, "second", 500*time.Millisecond)
		requireDialled(t, credentials, "second", 0) // the dial before has waited
		told.OnNext(auth.NewBasicCredentials("app", "third"))
		requireDialled(t, credentials, "third", 0)
		close(hang)
		synctest.Wait()
		requireDialled(t, credentials, "fourth", 0)
	})
}

// TestADialKeepsHalfOfItsTime when the provider hangs.
func TestADialKeepsHalfOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		close(hang)
		credentials := lockgoredis.NewSubscription(provider(func(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
			<-hang
			return auth.NewBasicCredentials("app", "first"), nil, nil
		}))
		requireDialled(t, credentials, "first", 0)
		hang = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, password, err := credentials(ctx)
		require.NoError(t, err)
		require.Equal(t, "first", password)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
		close(hang)
	})
}

// TestAChangeDuringASubscribeCounts: its answer is older than what a listener was told.
func TestAChangeDuringASubscribeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told auth.CredentialsListener
		during := func() {}
		credentials := lockgoredis.NewSubscription(provider(func(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
			old := auth.NewBasicCredentials("app", "first")
			during()
			told = l
			return old, nil, nil
		}))
		requireDialled(t, credentials, "first", 0)
		during = func() { told.OnNext(auth.NewBasicCredentials("app", "second")) }
		requireDialled(t, credentials, "second", 0)
	})
}

// TestTheProviderAlwaysHasOneSubscriber from the first dial on, also after its manager has told an
// error and tells nothing more.
func TestTheProviderAlwaysHasOneSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTokens(t, nil)
		credentials := lockgoredis.NewSubscription(p)
		requireOne := func() {
			t.Helper()
			synctest.Wait()
			now, stops := p.subscribers()
			require.Equal(t, 1, now)
			require.Zero(t, stops)
		}
		for n := 1; n < 5; n++ {
			requireDialled(t, credentials, token(n), 0)
			requireOne()
			p.renew()
		}
		p.setDown(true)
		p.renew()
		requireDialled(t, credentials, token(5), 0)
		requireOne()
		p.setDown(false)
		p.renew()
		time.Sleep(firstPause)
		requireDialled(t, credentials, token(6), 0)
		requireOne()
	})
}
