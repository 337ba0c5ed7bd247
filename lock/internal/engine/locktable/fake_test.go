package locktable

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHold is a hold without Redis.
type fakeHold struct {
	of    *client // its client; may be nil
	name  string
	owner owner.Owner
	mode  Mode
	past  *Past

	mu                            sync.Mutex // guards what follows
	leaving, over, ended, closing bool
	doubtful                      bool
	until                         time.Time
	confirmed                     int
}

func (h *fakeHold) Name() string        { return h.name }
func (h *fakeHold) Owner() owner.Owner  { return h.owner }
func (h *fakeHold) Mode() Mode          { return h.mode }
func (h *fakeHold) Past() *Past         { return h.past }
func (h *fakeHold) Leaving() bool       { return h.is(&h.leaving) }
func (h *fakeHold) IsLost() bool        { return h.is(&h.over) }
func (h *fakeHold) IsLeaseLost() bool   { return h.is(&h.ended) }
func (h *fakeHold) CloseBegan()         { h.set(&h.closing) }
func (h *fakeHold) MarkDoubtful()       { h.set(&h.doubtful) }
func (h *fakeHold) IsDoubtful() bool    { return h.is(&h.doubtful) }
func (h *fakeHold) Deadline() time.Time { return h.until }
func (h *fakeHold) Confirm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirmed++
}

func (h *fakeHold) is(what *bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *what
}

func (h *fakeHold) set(what *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*what = true
}

// timesConfirmed returns how often the table has asked Redis about h.
func (h *fakeHold) timesConfirmed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.confirmed
}

var (
	errFakeClosed  = errors.New("closed")
	errFakeRefused = errors.New("refused")
	errFakeBarred  = errors.New("barred")
	errFakeUnknown = errors.New("unknown")
)

// fakeCall is an Acquisition whose tries the function try answers.
type fakeCall struct {
	Unowned[*fakeHold]
	try func() wire.Outcome
}

func (c fakeCall) Try(context.Context) wire.Outcome { return c.try() }
func (fakeCall) Channel() string                    { return "channel" }
func (fakeCall) Refusal(time.Duration) wire.Outcome { return refused }

var (
	granted = wire.Outcome{Result: wire.Granted}
	refused = wire.Outcome{Result: wire.Refused}
	unknown = wire.Outcome{Result: wire.Unknown, Cause: errFakeUnknown}
)

// errorOf returns the error of a call with ctx that ended with the Outcome o.
func errorOf(ctx context.Context, o wire.Outcome) error {
	err := o.Cause
	switch o.Result {
	case wire.Refused:
		err = errFakeRefused
	case wire.Closed:
		err = errFakeClosed
	case wire.Upgrade:
		err = errFakeBarred
	}
	switch o.End {
	case wire.ByClose:
		return errFakeClosed
	case wire.ByContext:
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// newFake returns the Table of a client that receives no messages. The Table passes on holds that no
// caller takes to passedOn. ctx ends the fake subscriber.
func newFake(ctx context.Context, passedOn func(*fakeHold)) *Table[*fakeHold] {
	subscriber := newDeafSubscriber(ctx)
	return New(Config[*fakeHold]{
		Lease: time.Minute, MaxPoll: 5 * time.Second, FairPoll: 2 * time.Second, HandOver: true,
		Random:     wait.Random(nil),
		Subscriber: func(string) *pubsub.Subscriber { return subscriber },
		Ahead:      func(string) time.Duration { return 0 },
		Closing:    make(chan struct{}),
		PassOn:     passedOn,
		LongWait:   func(context.Context, string, time.Duration) {},
		Logger:     record.New(slog.New(slog.DiscardHandler)),
	})
}
