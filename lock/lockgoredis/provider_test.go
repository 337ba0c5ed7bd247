package lockgoredis_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9/auth"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// tokens is a StreamingCredentialsProvider that behaves like the provider of go-redis-entraid 1.0.7:
//
//   - The last unsubscription stops its manager, and the next Subscribe starts it again.
//   - A Subscribe that fails to start the manager keeps a mutex locked, so all later ones hang.
//   - The manager tells listeners of each new token, until the token service fails once.
//   - A Subscribe gets a new token by itself if the token is due for renewal.
//
// Its user has the tokens as passwords. All tokens stay valid until expire.
type tokens struct {
	t       *testing.T
	server  *redistest.Server // nil: no server knows the tokens
	testEnd chan struct{}     // closed when the test ends
	start   chan struct{}     // of capacity 1; the mutex

	mu        sync.Mutex // guards the fields below
	n         int        // the number of the token
	due, down bool       // the token is due for renewal; the token service is down
	stopped   bool
	silent    bool // the manager has told an error, and tells nothing more
	listeners []auth.CredentialsListener
	stops     int
}

// newTokens returns a provider whose manager runs. Subscribes that hang return when the test ends.
func newTokens(t *testing.T, s *redistest.Server) *tokens {
	p := &tokens{t: t, server: s, testEnd: make(chan struct{}), start: make(chan struct{}, 1)}
	t.Cleanup(func() { close(p.testEnd) })
	p.newTokenLocked()
	return p
}

// token returns the token of a number.
func token(n int) string { return fmt.Sprint("token-", n) }

func (p *tokens) newTokenLocked() {
	p.n, p.due = p.n+1, false
	if p.server != nil {
		fixture.Do(p.t, p.server, "ACL", "SETUSER", "app", "on", ">"+token(p.n), "allkeys", "allchannels", "+@all")
	}
}

// tokenLocked does what GetToken(false) of the real provider does.
func (p *tokens) tokenLocked() (auth.Credentials, error) {
	switch {
	case p.due && p.down:
		return nil, errors.New("failed to request token from idp")
	case p.due:
		p.newTokenLocked()
	}
	return auth.NewBasicCredentials("app", token(p.n)), nil
}

func (p *tokens) lock() error {
	select {
	case p.start <- struct{}{}:
		return nil
	case <-p.testEnd:
		return errors.New("the test has ended")
	}
}

func (p *tokens) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	if err := p.lock(); err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		if _, err := p.tokenLocked(); err != nil {
			return nil, nil, fmt.Errorf("couldn't start token manager: %w", err) // start stays locked
		}
		p.stopped, p.silent = false, false
	}
	<-p.start
	credentials, err := p.tokenLocked()
	if err != nil {
		return nil, nil, fmt.Errorf("couldn't get token: %w", err)
	}
	if !slices.Contains(p.listeners, l) {
		p.listeners = append(p.listeners, l)
	}
	return credentials, func() error { return p.unsubscribe(l) }, nil
}

func (p *tokens) unsubscribe(l auth.CredentialsListener) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = slices.DeleteFunc(p.listeners, func(other auth.CredentialsListener) bool { return other == l })
	if len(p.listeners) > 0 || p.stopped {
		return nil
	}
	if err := p.lock(); err != nil {
		return err
	}
	p.stopped = true
	p.stops++
	<-p.start
	return nil
}

// renew is what the manager does when the token is due.
func (p *tokens) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = true
	if p.stopped || p.silent {
		return
	}
	credentials, err := p.tokenLocked()
	for _, l := range p.listeners {
		if p.silent = err != nil; p.silent {
			l.OnError(err)
		} else {
			l.OnNext(credentials)
		}
	}
}

// expire makes all tokens but the newest invalid and closes the user's connections, as a server does when
// tokens expire.
func (p *tokens) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	fixture.Do(p.t, p.server, "ACL", "SETUSER", "app", "resetpass", ">"+token(p.n))
	fixture.Do(p.t, p.server, "CLIENT", "KILL", "USER", "app")
}

// setDown says whether the service fails from now on.
func (p *tokens) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// subscribers returns the number of listeners, and how often the manager was stopped.
func (p *tokens) subscribers() (now, stops int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.listeners), p.stops
}
