package lockgoredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9/auth"
)

const (
	// patience is how long dials that have credentials wait for newer ones.
	patience = 500 * time.Millisecond

	// After a failure, the provider is not asked for a pause, which doubles with each failure in a
	// row.
	firstPause = 100 * time.Millisecond
	lastPause  = 3200 * time.Millisecond
)

// subscription has the newest credentials of a StreamingCredentialsProvider. All connections of one
// Client share it.
//
// Each dial calls Subscribe, because a listener may miss changes. The provider of go-redis-entraid
// 1.0.7 tells its listeners nothing more after an error, but its Subscribe still gets new tokens. A
// change during a Subscribe may reach neither its answer nor its listener. Other providers ignore
// their listeners. Only one Subscribe runs at a time.
//
// Each new subscription replaces the one before, which ends only then. The last one never ends. So
// the provider never loses its last subscriber through a Client. Without a subscriber, the provider
// of go-redis-entraid 1.0.7 stops. If it cannot start again at once, it keeps a mutex locked. Then
// all dials hang for ever, even the dials of the program's own go-redis client.
//
// The provider keeps the last listener, so a subscription does not refer to its Client.
type subscription struct {
	provider auth.StreamingCredentialsProvider // immutable

	newest atomic.Pointer[login] // nil until some have come

	mu       sync.Mutex // guards the fields below; never held while the provider is called
	last     *question  // nil before the first
	asking   bool       // the goroutine of last runs
	failures int        // in a row
	again    time.Time  // the end of the pause after a failure

	unsubscribe auth.UnsubscribeFunc // ends the present subscription, or nil; owned by the goroutine of last
}

// login is a user with a password.
type login struct{ user, password string }

// question is one call of Subscribe.
type question struct {
	began    time.Time     // immutable
	before   *login        // subscription.newest when it began; immutable
	answered chan struct{} // closed when err is set
	err      error
}

// credentials returns the newest credentials. It asks the provider for them. If the provider fails or
// takes long, it returns the credentials that it has. If it has none, it waits for the end of a pause
// after a failure, and then for the provider's answer. ctx limits both waits.
func (s *subscription) credentials(ctx context.Context) (user, password string, err error) {
	q, pause := s.ask()
	for pause > 0 && s.newest.Load() == nil {
		paused, cancel := context.WithTimeout(ctx, pause)
		<-paused.Done()
		cancel()
		if ctx.Err() != nil {
			return "", "", q.err
		}
		q, pause = s.ask()
	}
	if s.newest.Load() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, q.late(ctx))
		defer cancel()
	}
	select {
	case <-q.answered:
		err = q.err
	case <-ctx.Done():
		err = fmt.Errorf("the StreamingCredentialsProvider has not answered: %w", ctx.Err())
	}
	if known := s.newest.Load(); known != nil {
		return known.user, known.password, nil
	}
	return "", "", err
}

// late returns the time at which a dial that has credentials stops waiting for newer ones: patience
// after q began, but not after half of the dial's time. So a provider that hangs delays only the dials
// that wait for q during patience.
func (q *question) late(ctx context.Context) time.Time {
	late := q.began.Add(patience)
	if end, limited := ctx.Deadline(); limited {
		if half := time.Now().Add(time.Until(end) / 2); half.Before(late) {
			return half
		}
	}
	return late
}

// ask returns the question under way, or a new one. In the pause after a failure it returns the
// question that failed, and how long the pause still lasts.
func (s *subscription) ask() (q *question, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking {
		return s.last, 0
	}
	if pause := time.Until(s.again); pause > 0 {
		return s.last, pause
	}
	s.asking = true
	s.last = &question{began: time.Now(), before: s.newest.Load(), answered: make(chan struct{})}
	go s.subscribe(s.last)
	return s.last, 0
}

// subscribe calls Subscribe for q, and then ends the earlier subscription.
func (s *subscription) subscribe(q *question) {
	credentials, unsubscribe, err := s.provider.Subscribe(&listener{s})
	switch {
	case err == nil && credentials == nil:
		err = errors.New("the StreamingCredentialsProvider has neither credentials nor an error")
	case err == nil:
		s.newest.CompareAndSwap(q.before, loginOf(credentials)) // unless a listener was told newer ones meanwhile
	}
	q.err = err
	s.count(err)
	close(q.answered)
	if unsubscribe != nil {
		if s.unsubscribe != nil {
			_ = s.unsubscribe() // its error says nothing about the credentials
		}
		s.unsubscribe = unsubscribe
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
}

// count sets the pause until the next question.
func (s *subscription) count(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.failures = 0
		return
	}
	s.again = time.Now().Add(min(firstPause<<min(s.failures, 10), lastPause))
	s.failures++
}

func loginOf(c auth.Credentials) *login {
	user, password := c.BasicAuth()
	return &login{user, password}
}

// listener is one subscriber of the provider. A provider may compare listeners, so each Subscribe
// has a listener of its own.
type listener struct{ to *subscription }

func (l *listener) OnNext(c auth.Credentials) {
	if c != nil {
		l.to.newest.Store(loginOf(c))
	}
}

// OnError does nothing: the credentials may still be valid, and the next dial asks for newer ones.
func (l *listener) OnError(error) {}
