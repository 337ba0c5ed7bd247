package hold

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// ReleaseAll releases the holds that are left, for Config.ReleaseOnClose. unreleased includes
// holds whose release is not certain. A hold that a call is unlocking is in neither number. Servers
// do not wait for each other. So ReleaseAll takes as long as the slowest server that answers, and
// Config.UnlockTimeout for a server that does not answer.
func (k *Engine) ReleaseAll() (released, unreleased int) {
	all := k.Table.All()
	slices.SortFunc(all, func(a, b *Hold) int { return cmp.Compare(a.seq, b.seq) }) // as they were taken
	holds := make(map[network.Server][]*Hold)
	var of []network.Server
	for _, h := range all {
		s := k.Network.Server(h.name)
		if len(holds[s]) == 0 {
			of = append(of, s)
		}
		holds[s] = append(holds[s], h)
	}
	var wg sync.WaitGroup
	var each []*releasing
	for _, s := range of {
		r := &releasing{engine: k, batch: releaseBatch(k.cfg.IOTimeout), changed: make(chan struct{}, 1)}
		each = append(each, r)
		wg.Go(k.cfg.Labeler.Label("release on close", func() { r.run(k.ctx, holds[s]) }))
	}
	wg.Wait()
	for _, r := range each {
		n := r.end()
		released += n
		unreleased += len(r.claimed) - n
	}
	return released, unreleased
}

// releasing releases the holds of one server. It sends a batch of requests while the server
// still works on the one before. So the server always has work, and no request waits for longer
// than two batches take.
type releasing struct {
	// immutable
	engine  *Engine
	batch   int           // see releaseBatch
	changed chan struct{} // of capacity 1: look at underWay again

	claimed []*Hold // that are not watched any more; used by run alone

	mu       sync.Mutex  // guards what follows
	limit    *time.Timer // ends run, Config.UnlockTimeout after the last answer
	underWay int         // requests
	failed   []*Hold     // holds whose release is not certain, so it is sent again
	released int
	ended    bool // later answers are not counted
}

// releaseBatch returns how many releases are sent together. A shorter time for the answers means
// a smaller batch. The batch is as large as the time allows, because a busy machine takes long
// between two batches.
func releaseBatch(ioTimeout time.Duration) int {
	return min(max(int(ioTimeout/(500*time.Microsecond)), 16), 2000)
}

// run releases holds until all releases are answered, the server stops answering, or ctx ends.
// A release may be sent twice, because no other hold has its field.
func (r *releasing) run(ctx context.Context, holds []*Hold) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.limit = time.AfterFunc(r.engine.cfg.UnlockTimeout, cancel)
	r.sendAll(ctx, holds)
	for _, h := range r.claimed {
		h.Lost(renewal.Closed) // does nothing for the holds that answered has told
	}
}

// sendAll sends the releases for run. answered tells the holders of released holds.
func (r *releasing) sendAll(ctx context.Context, holds []*Hold) {
	for try := 0; ctx.Err() == nil && r.await(ctx, r.batch); {
		failed, idle := r.takeFailed()
		switch {
		case len(failed) > 0:
			if wait.Pause(ctx, nil, wait.Backoff(r.engine.cfg.Random, try)) == nil {
				r.send(failed)
			}
			try++
		case len(holds) > 0:
			n := min(r.batch, len(holds))
			r.send(r.claim(holds[:n]))
			holds = holds[n:]
		case idle:
			return
		default:
			r.await(ctx, 0)
		}
	}
	r.claim(holds) // these are not released
}

// claim ends the leases of holds. It returns the holds whose lease had not ended before.
func (r *releasing) claim(holds []*Hold) []*Hold {
	before := len(r.claimed)
	for _, h := range holds {
		h.setFlag(closed, true)
		if h.lease.Release() {
			r.claimed = append(r.claimed, h)
		}
	}
	return r.claimed[before:]
}

// send sends the releases of holds.
func (r *releasing) send(holds []*Hold) {
	r.mu.Lock()
	r.underWay += len(holds)
	r.mu.Unlock()
	for _, h := range holds {
		r.engine.Network.Post(h.name, r.engine.releaseCall(h.kind, h.name, []byte(h.field())), func(a pipe.Answer) { r.answered(h, a) })
	}
}

// answered handles the answer to a release of h. It does not block.
func (r *releasing) answered(h *Hold, a pipe.Answer) {
	r.note(h, a)
	if a.Err == nil {
		h.Lost(renewal.Closed) // not before: when nothing is held, another Close ends the client
	}
}

// note counts an answer.
func (r *releasing) note(h *Hold, a pipe.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay--
	switch {
	case r.ended:
	case a.Err == nil:
		r.released++ // or it was gone
		r.limit.Reset(r.engine.cfg.UnlockTimeout)
	case pipe.Definite(a.Err): // no, and not next time either
		r.limit.Reset(r.engine.cfg.UnlockTimeout)
	case errors.Is(a.Err, r.engine.cfg.Closed):
	default:
		r.failed = append(r.failed, h)
	}
	if r.underWay <= r.batch {
		wait.Signal(r.changed)
	}
}

// await waits until no more than most requests are under way. It returns false if ctx ends before.
func (r *releasing) await(ctx context.Context, most int) bool {
	for {
		r.mu.Lock()
		met := r.underWay <= most
		r.mu.Unlock()
		if met {
			return true
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return false
		}
	}
}

// takeFailed returns the holds whose release is to be sent again. It reports whether no request is
// under way.
func (r *releasing) takeFailed() (failed []*Hold, idle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed, r.failed = r.failed, nil
	return failed, r.underWay == 0
}

// end returns how many holds were released. It does not count holds whose answer comes later.
func (r *releasing) end() (released int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.limit.Stop()
	return r.released
}
