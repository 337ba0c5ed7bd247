package carrier

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// allHeld is a connection to a server that has all locks, or says why not.
type allHeld struct {
	redis.Conn // nil: nothing else of it is called
	refuses    error
}

func (allHeld) Send(string, ...any) error { return nil }
func (allHeld) Flush() error              { return nil }
func (allHeld) Close() error              { return nil }

func (c allHeld) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, errors.New("not of a pipeline")
}

func (c allHeld) ReceiveWithTimeout(time.Duration) (any, error) {
	if c.refuses != nil {
		return nil, c.refuses
	}
	return []any{}, nil
}

// hold is an Owner.
type hold struct{ lease renewal.Lease }

func (*hold) Lost(renewal.Reason)         {}
func (*hold) Class() Class                { return Fields }
func (*hold) Name() string                { return "flat" }
func (*hold) Key() string                 { return "flat" }
func (*hold) AppendField(b []byte) []byte { return append(b, ":1"...) }
func (*hold) Touch() byte                 { return 0 }
func (*hold) Asked() bool                 { return false }
func (*hold) MoveTo(*renewal.Lane, bool)  {}

// watched tells after each batch what the idle connections still refer to.
type watched struct {
	*Carrier
	kept chan int
}

func (w watched) Renew(ctx context.Context, b *renewal.Batch) {
	w.Carrier.Renew(ctx, b)
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := 0
	if len(w.idle) == 0 {
		kept = -1
	}
	for _, c := range w.idle {
		for _, o := range c.owners[:cap(c.owners)] {
			if o != nil {
				kept++
			}
		}
	}
	select {
	case w.kept <- kept:
	default:
	}
}

func TestAnIdleConnectionKeepsNoHolds(t *testing.T) {
	for name, refuses := range map[string]error{
		"renewed": nil, "refused": redis.Error("BUSY"), "forgotten script": redis.Error("NOSCRIPT"),
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config{
				Timeout: time.Minute, Conns: 1,
				Dial: func(context.Context, *dialing.Bound) (pipe.Connection, error) {
					return pipe.Connection{Conn: allHeld{refuses: refuses}}, nil
				},
				Epoch:    func() uint32 { return 0 },
				Target:   func(pipe.Redirection) *renewal.Lane { return nil },
				Answered: func(error) {}, Failed: func(error) {}, Resumed: func() {},
				Timed: func(pipe.Clock, time.Duration) {},
			})
			defer r.Close()
			w := watched{r, make(chan int, 1)}
			dog, err := renewal.New(renewal.Config{TTL: 300 * time.Millisecond, Dispatchers: 1})
			require.NoError(t, err)
			defer dog.Close()
			lane, err := dog.Lane("s", w)
			require.NoError(t, err)
			holds := make([]hold, 100)
			for i := range holds {
				h := &holds[i]
				require.NoError(t, lane.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: time.Minute}))
			}
			lane.Verify() // due at once
			require.Zero(t, bounded.Receive(t, w.kept))
		})
	}
}
