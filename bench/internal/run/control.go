package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/lock"
)

const (
	// ControlLease is the lease of the control lock. It does not depend on
	// the rows' lease, and is short because the run waits for its end.
	ControlLease = time.Second
	// controlGrace is how long after its lease the control lock may be seen.
	// The time counts from answers to questions, so a slow machine cannot
	// break it; miniredis moves its TTLs in steps of up to 50 ms.
	controlGrace  = time.Second
	controlPeriod = 10 * time.Millisecond
)

// checkExpiry is checkExpiryOnce. It tries again if the lock is gone early, because on a busy machine
// miniredis may take off from a TTL what the command that sets it has waited.
func checkExpiry(ctx context.Context, t *holders.Target, name string, lease time.Duration) (there time.Duration, err error) {
	for range 3 {
		if there, err = checkExpiryOnce(ctx, t, name, lease); !errors.As(err, new(*earlyError)) {
			break
		}
	}
	return there, err
}

// earlyError says that a key was gone before its lease had ended.
type earlyError struct{ there, lease time.Duration }

func (e *earlyError) Error() string {
	return fmt.Sprintf("bench: the control lock was gone after %v, before its lease of %v: something deletes keys, or the server's time runs fast", e.there, e.lease)
}

// checkExpiryOnce takes a lock, does not renew it and waits until it has expired. On a server that
// never lets a key expire, "lost 0" would mean nothing. It returns how long the
// lock was there, and leaves no key.
func checkExpiryOnce(ctx context.Context, t *holders.Target, name string, lease time.Duration) (time.Duration, error) {
	client, err := holders.NewClient(t, lock.Config{Lease: lease, FailFast: true}, func(conn redis.Conn, _ int) redis.Conn { return conn })
	if err != nil {
		return 0, err
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	defer func() { _ = client.Close(over) }()
	conn, err := t.Servers()[t.Lane(name)].Dial()
	if err != nil {
		return 0, fmt.Errorf("bench: the control lock: %w", err)
	}
	defer conn.Close()

	// Taking it is not interrupted, so that it is known whether there is a key.
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), holders.ConnectTimeout)
	defer cancel()
	asked := time.Now()
	if _, err := client.Mutex(name).LockFor(soon, lease); err != nil {
		return 0, fmt.Errorf("bench: the control lock cannot be acquired: %w", err)
	}
	defer func() { _, _ = conn.Do("DEL", name) }()
	taken := time.Now()
	for {
		question := time.Now()
		found, err := redis.Int(conn.Do("EXISTS", name))
		if err != nil {
			return 0, fmt.Errorf("bench: the control lock: %w", err)
		}
		switch there := time.Since(asked); {
		case found == 0 && there < lease*4/5:
			return 0, &earlyError{there, lease}
		case found == 0:
			return there, nil
		case question.Sub(taken) > lease+controlGrace:
			return 0, fmt.Errorf("bench: the control lock, which nobody renews, is still there %v after it was taken for %v: this server does not let keys expire, or something renews them, so \"lost 0\" would mean nothing",
				question.Sub(taken).Round(time.Millisecond), lease)
		}
		if sleep(ctx, controlPeriod); ctx.Err() != nil {
			return 0, errInterrupted
		}
	}
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// errInterrupted ends a run that the user does not want any more.
var errInterrupted = errors.New("bench: interrupted; no lock is held")
