package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"
)

// settling is how often what can be checked is. The more often, the less there is
// in memory, and the less remains at the end.
const settling = 500 * time.Millisecond

// settle checks what was not checked yet, piece by piece, up to the moment until
// which all is known; or, when the run is over, all that is left. One goroutine at a
// time may settle.
func (c *checks) settle(all bool) {
	found := c.history.collect(all)
	c.record = found.record
	for _, e := range found.wrongs {
		c.wrong("process %d, hold %d of %s: %s", e.Proc, e.ID, e.Key, e.Out)
	}
	slices.SortFunc(found.pieces, func(a, b piece) int { return strings.Compare(a.line.key, b.line.key) })
	for _, p := range found.pieces {
		c.piece(p)
	}
	for _, r := range found.renewals {
		c.noLateRenewal(r)
	}
	c.peak = max(c.peak, memory())
}

// finish settles what is left after the end, and checks what processes have then.
func (c *checks) finish() {
	c.settle(true)
	c.leftovers()
}

// meanwhile settles until ctx ends.
func (c *checks) meanwhile(ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, settling) {
		c.settle(false)
	}
}

// finding is what can be checked now.
type finding struct {
	record   record
	pieces   []piece
	renewals []renewal
	wrongs   []event
}

// renewal is one of a hold that had ended.
type renewal struct {
	renewed
	end stamp
}

// collect takes from the history what can be checked; all of it if the run is over.
// That is what happened before the last moment until which all is known: processes say
// now and then up to which stamp they have written everything (recorder.mark), and a
// fault is known when it is over. What stays are numbers, eight bytes for each attempt,
// the faults, and the times in which somebody stood still.
func (hy *history) collect(all bool) (f finding) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	until := hy.fault - 1 // the time of a fault is known when it is over
	for _, known := range hy.known {
		until = min(until, known)
	}
	if all {
		until = forever
		for _, l := range hy.lines {
			if len(l.holds)+len(l.attempts) > 0 {
				f.pieces = append(f.pieces, l.rest())
			}
		}
		clear(hy.dirty)
	}
	for l := range hy.dirty {
		if p, ok := l.cut(until); ok {
			f.pieces = append(f.pieces, p)
		}
	}
	// What is over, and is not in a piece yet, will be.
	maps.DeleteFunc(hy.dirty, func(l *line, _ bool) bool {
		return len(l.attempts) == 0 && !slices.ContainsFunc(l.holds, func(h *hold) bool { return h.over != forever })
	})
	hy.renewals = slices.DeleteFunc(hy.renewals, func(r renewed) bool {
		if r.at > until {
			return false
		}
		if end := hy.ends(name{r.proc, r.id}); end < r.at {
			f.renewals = append(f.renewals, renewal{r, end})
		}
		return true
	})
	f.wrongs, hy.wrongs = hy.wrongs, nil
	// What is there of these does not change any more; they grow at their ends.
	f.record = record{faults: hy.faults, stopped: maps.Clone(hy.stopped), killed: maps.Clone(hy.killed)}
	return f
}

// ends is until when a hold may be renewed; forever if it holds, or is none.
func (hy *history) ends(n name) stamp {
	if h := hy.fields[n]; h != nil {
		return h.renewable()
	}
	if h := hy.open[n]; h != nil {
		return h.renewable()
	}
	if ends := hy.ended[n.proc]; n.id >= 0 && n.id < int64(len(ends)) && ends[n.id] > 0 {
		return ends[n.id]
	}
	return forever
}

// memory is what this process has from the system for Go's heap, stacks and the rest.
func memory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// tail keeps the last events of a run in two files, the older of which is dropped
// when the newer is full: an hour writes more than a disk may have.
type tail struct {
	path string // of the newer one
	most int64  // bytes of a file

	mu   sync.Mutex // guards what follows
	file *os.File
	size int64
}

func newTail(path string, most int64) (*tail, error) {
	f, err := os.Create(path)
	return &tail{path: path, most: most, file: f}, err
}

// older is where the older file is.
func (t *tail) older() string {
	return filepath.Join(filepath.Dir(t.path), "older-"+filepath.Base(t.path))
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size+int64(len(b)) > t.most {
		if err := t.file.Close(); err != nil {
			return 0, err
		}
		if err := os.Rename(t.path, t.older()); err != nil {
			return 0, err
		}
		f, err := os.Create(t.path)
		if err != nil {
			return 0, fmt.Errorf("faults: the history cannot be kept: %w", err)
		}
		t.file, t.size = f, 0
	}
	n, err := t.file.Write(b)
	t.size += int64(n)
	return n, err
}

func (t *tail) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.file.Close()
}
