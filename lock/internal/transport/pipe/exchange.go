package pipe

import (
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// Exchange has the requests that are in flight over one connection, in the order in which they
// were written. Between them are questions that the connection itself asks: TIME, HDEL, which finds out
// whether the server is a replica (mastercheck.go), and WAIT. ASKING is a part of the request behind it.
// Commands, acquisitions with WAIT and
// renewals use an Exchange.
//
// An Exchange writes requests with their limits, finds the request to which an answer belongs, and
// says what follows from the answer. It completes no request and closes nothing: its user does, see
// conn, Replicated and package renewer.
//
//	          Write                          Next                 judge
//	requests ───────▶ stamped, in flight ─────────▶ the oldest ──────────▶ Verdict
//	                    ▲                    │
//	   TIME, HDEL, ─────┘                    └─▶ clock, masterCheck: nothing is left to do
//	   WAIT                                      an error: the connection is not usable
//
// One goroutine may write while another reads. After an error of Write or Next the connection is
// not usable.
type Exchange struct {
	// immutable
	cfg   *Config
	made  time.Time   // when the connection was made
	epoch uint32      // of the server, see Config.Epoch
	redis redis.Conn  // written by one goroutine at a time, and read by one
	below *resp.Conn  // the connection below redis; nil if package resp did not make redis, as for a program's own pool
	batch *resp.Batch // used by the goroutine that writes

	hasAnswered bool // the server has answered something on the connection; used by the goroutine that reads

	mu          sync.Mutex // guards what follows; never held during I/O
	inflight    flight
	isOverdue   bool  // the oldest request was too old at the last look at its age
	clock       Clock // of the server
	masterCheck masterCheck
}

// flight is a queue of requests, oldest first, which uses its memory again.
type flight struct {
	list     []*Request
	answered int // the number of requests at the beginning of list that are answered
}

// waiting returns the requests that are not answered, oldest first.
func (f *flight) waiting() []*Request { return f.list[f.answered:] }

func (f *flight) add(more ...*Request) {
	if f.answered > len(f.list)/2 && len(f.list)+len(more) > cap(f.list) {
		n := copy(f.list, f.list[f.answered:])
		clear(f.list[n:])
		f.list, f.answered = f.list[:n], 0
	}
	f.list = append(f.list, more...)
}

func (f *flight) dropOldest() {
	f.list[f.answered] = nil
	if f.answered++; f.answered == len(f.list) {
		f.list, f.answered = f.list[:0], 0
	}
}

// NewExchange returns the Exchange of a connection that was made just now. cfg must not be changed
// any more.
func NewExchange(cfg *Config, dialed Connection) *Exchange {
	return &Exchange{
		cfg: cfg, made: time.Now(), epoch: dialed.Epoch, redis: dialed.Conn, below: resp.Below(dialed.Conn), batch: resp.NewBatch(dialed.Conn),
		clock: dialed.Clock, masterCheck: cfg.newMasterCheck(),
	}
}

// Age returns how long ago the connection was made.
func (x *Exchange) Age() time.Duration { return time.Since(x.made) }

// IsReplaced reports whether the server's epoch has ended. It is called between the stamp of requests
// and their first byte. So every request that the old server gets has a stamp from before the end of
// its epoch, and what the old server granted can be told by this stamp.
func (x *Exchange) IsReplaced() bool { return x.cfg.Epoch() != x.epoch }

// Write stamps requests and writes them.
func (x *Exchange) Write(batch []*Request) error {
	x.mu.Lock()
	all := x.registerLocked(batch, time.Now())
	x.mu.Unlock()
	if x.IsReplaced() {
		for _, r := range batch {
			r.markNotRun()
		}
		return ErrReplaced
	}
	return x.send(all)
}

// registerLocked stamps requests that are written next, and records them behind the questions that are
// due. It returns all that must be written.
func (x *Exchange) registerLocked(batch []*Request, now time.Time) []*Request {
	for _, r := range batch {
		r.stamp(now, &x.clock, x.cfg.Timeout)
	}
	var due []*Request
	switch {
	case !x.clock.Due(now):
	case !x.clock.asksByScript:
		due = append(due, newQuestion(timeQuestion, now, ""))
	case batch[0].keys > 0: // a script needs a key, so that proxies and a Cluster know where it belongs
		due = append(due, newQuestion(timeByScript, now, batch[0].args.First()))
	}
	if len(due) > 0 {
		x.clock.NoteQuestionSent(now)
	}
	if x.masterCheck.beginIfDue(x.cfg, now, batch) {
		due = append(due, newQuestion(masterQuestion, now, batch[0].args.First()))
	}
	if len(due) > 0 {
		batch = append(due, batch...)
	}
	x.inflight.add(batch...)
	return batch
}

// IsOld reports whether the connection should be replaced before it is used again. It was idle for so long
// that it no longer knows the server's time well. Networks forget such connections, too.
func (x *Exchange) IsOld() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.isOldLocked(time.Now())
}

// isOldLocked is IsOld.
func (x *Exchange) isOldLocked(now time.Time) bool {
	return len(x.inflight.waiting()) == 0 && x.clock.IsOld(now)
}

// send writes what registerLocked has returned.
func (x *Exchange) send(all []*Request) error {
	for _, r := range all {
		if err := r.addTo(x.batch, x.cfg); err != nil {
			return err
		}
	}
	return x.batch.Flush()
}

// Next waits for the answer to the oldest request. It has no limit, and ends when the connection is
// closed. refusal is an error reply. err says that the connection is not usable.
func (x *Exchange) Next() (r *Request, reply resp.Reply, refusal, err error) {
	for {
		reply, err := resp.ReceiveReply(x.redis, x.below)
		if isBroken(err) {
			return nil, resp.Reply{}, nil, err
		}
		x.mu.Lock()
		r, ofAsking := x.popLocked()
		x.mu.Unlock()
		isOwn, failure := x.handleQuestion(r, ofAsking, reply, err)
		if failure != nil {
			return nil, resp.Reply{}, nil, failure
		}
		if !isOwn {
			return r, reply, err, nil
		}
	}
}

// popLocked removes and returns the oldest request, or nil if there is none. If the answer belongs to
// the ASKING before the request, ofAsking is true and the request stays.
func (x *Exchange) popLocked() (r *Request, ofAsking bool) {
	waiting := x.inflight.waiting()
	if len(waiting) == 0 {
		return nil, false
	}
	r = waiting[0]
	if r.needsAsking && !r.askingAnswered {
		r.askingAnswered = true
		return r, true
	}
	x.inflight.dropOldest()
	x.isOverdue = false // it was true of r, which is not the oldest any more
	return r, false
}

// lookAtAgeLocked looks at the age of the oldest request, which exists. isOver reports that the
// connection must be closed. If not, the caller looks again after next. A request that is too old is
// looked at twice, because this process may be the slow one: after a standstill its timers run before
// it reads what has come.
func (x *Exchange) lookAtAgeLocked() (next time.Duration, isOver bool) {
	oldest := x.inflight.waiting()[0]
	left := x.cfg.Timeout - time.Since(oldest.answer.Stamp)
	if oldest.question == replicasQuestion {
		left += x.cfg.ReplicaTimeout
	}
	if left > 0 {
		return left, false
	}
	isOver, x.isOverdue = x.isOverdue, true
	return x.cfg.Timeout / 16, isOver
}

// handleQuestion handles the answer if it belongs to a question of the connection. isOwn reports
// that. failure says that the connection is not usable.
func (x *Exchange) handleQuestion(r *Request, ofAsking bool, reply resp.Reply, refusal error) (isOwn bool, failure error) {
	if r == nil { // the connection has died meanwhile, or the server answered without a request
		return false, fmt.Errorf("unexpected answer %.100q", fmt.Sprint(reply.Any(), refusal))
	}
	if !x.hasAnswered {
		x.hasAnswered = true
		x.cfg.Answered()
	}
	switch {
	case ofAsking: // if ASKING was refused, the request behind it is refused too
		return true, nil
	case r.question == masterQuestion:
		return true, x.cfg.handleMasterCheck(r.answer.Stamp, x.made, refusal)
	case r.question == timeQuestion, r.question == timeByScript:
		if server, err := TimeOf(reply.Any(), refusal); err == nil {
			x.sample(r.answer.Stamp, server, 0)
		} else if Definite(refusal) {
			x.mu.Lock()
			x.clock.Refused()
			x.mu.Unlock()
		}
		return true, nil
	}
	return false, nil
}

// judge says what follows from an answer to r, and does the part of it that concerns only r and the
// clock, see Config.judgeAnswer.
func (x *Exchange) judge(r *Request, refusal error) Verdict {
	if refusal == nil {
		return Final
	}
	if x.NoteLate(r, refusal) {
		r.clockChanges++
	}
	v := x.cfg.judgeAnswer(r, refusal)
	if v == Late && r.clockChanges == MaxLates {
		x.Distrust()
	}
	return v
}

// NoteLate records the server's time if an answer to r is LATE. It reports whether the time
// contradicts the earlier estimate.
func (x *Exchange) NoteLate(r *Request, refusal error) (contradicts bool) {
	server, late := Lateness(refusal)
	return late && x.sample(r.answer.Stamp, server, LateUnit)
}

// sample records the server's time in an answer to a request that was sent at sent. It
// reports whether that contradicts the earlier estimate.
func (x *Exchange) sample(sent, server time.Time, unit time.Duration) bool {
	x.mu.Lock()
	off := x.clock.Sample(sent, time.Now(), server, unit)
	clock := x.clock
	x.mu.Unlock()
	x.cfg.Timed(clock, off)
	return off != 0
}

// Distrust makes requests have no limit from now on, because the server's answers about
// its clock do not seem to hold for the next request.
func (x *Exchange) Distrust() {
	x.mu.Lock()
	x.clock.Distrust()
	clock := x.clock
	x.mu.Unlock()
	x.cfg.Timed(clock, 0)
}
