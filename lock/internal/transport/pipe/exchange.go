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

func (f *flight) len() int { return len(f.list) - f.answered }

func (f *flight) oldest() *Request { return f.list[f.answered] }

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

func (f *flight) takeAll() []*Request {
	all := f.list[f.answered:]
	*f = flight{}
	return all
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

// questions says what the connection asks before the requests of a write.
type questions struct {
	asksTime, asksIfMaster bool
	byScript               bool // a script asks for the time, see Clock.AskByScript
}

// timeScript answers as TIME does.
const timeScript = "return redis.pcall('time')"

// isReplaced reports whether the server's epoch has ended. It is called between the stamp of requests
// and their first byte. So every request that the old server gets has a stamp from before the end of
// its epoch, and what the old server granted can be told by this stamp.
func (x *Exchange) isReplaced() bool { return x.cfg.Epoch() != x.epoch }

// Write stamps requests and writes them.
func (x *Exchange) Write(batch []*Request) error {
	x.mu.Lock()
	asked := x.registerLocked(batch, time.Now())
	x.mu.Unlock()
	if x.isReplaced() {
		for _, r := range batch {
			r.markNotRun()
		}
		return ErrReplaced
	}
	return x.send(batch, asked)
}

// registerLocked stamps requests that are written next, and records them and the questions before
// them.
func (x *Exchange) registerLocked(batch []*Request, now time.Time) (asked questions) {
	st := x.clock.newStamps(now, x.cfg.Timeout)
	asked.byScript = x.clock.AsksByScript()
	// A script needs a key, so that proxies and a Cluster know where it belongs.
	if asked.asksTime = x.clock.Due(now) && !(asked.byScript && batch[0].keys == 0); asked.asksTime {
		x.clock.NoteQuestionSent(now)
		x.inflight.add(newQuestion(timeQuestion, now))
	}
	if asked.asksIfMaster = x.masterCheck.beginIfDue(x.cfg, now, batch); asked.asksIfMaster {
		x.inflight.add(newQuestion(masterQuestion, now))
	}
	for _, r := range batch {
		r.stamp(&st)
	}
	x.inflight.add(batch...)
	return asked
}

// isOldLocked reports whether the connection should be replaced before it is used again. It was idle for so long
// that it no longer knows the server's time well. Networks forget such connections, too.
func (x *Exchange) isOldLocked(now time.Time) bool {
	return x.inflight.len() == 0 && x.clock.IsOld(now)
}

// send writes the requests and questions that registerLocked has recorded.
func (x *Exchange) send(batch []*Request, asked questions) error {
	if asked.asksTime {
		if err := x.askTime(batch, asked.byScript); err != nil {
			return err
		}
	}
	if asked.asksIfMaster {
		if err := askIfMaster(x.batch, batch); err != nil {
			return err
		}
	}
	for _, r := range batch {
		if err := r.addTo(x.batch); err != nil {
			return err
		}
	}
	return x.batch.Flush()
}

// askTime writes the question for the server's time, which precedes batch.
func (x *Exchange) askTime(batch []*Request, byScript bool) error {
	if byScript {
		return x.batch.Texts("EVAL", timeScript, "1", batch[0].args.First())
	}
	return x.batch.Command("TIME")
}

// Next waits for the answer to the oldest request. It has no limit, and ends when the connection is
// closed. refusal is an error reply. err says that the connection is not usable.
func (x *Exchange) Next() (r *Request, reply resp.Reply, refusal, err error) {
	for {
		reply, err := x.receive()
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

// receive reads an answer.
func (x *Exchange) receive() (resp.Reply, error) {
	if x.below != nil {
		return x.below.Receive(x.redis)
	}
	return resp.ReceiveReply(x.redis, 0)
}

// popLocked removes and returns the oldest request, or nil if there is none. If the answer belongs to
// the ASKING before the request, ofAsking is true and the request stays.
func (x *Exchange) popLocked() (r *Request, ofAsking bool) {
	if x.inflight.len() == 0 {
		return nil, false
	}
	r = x.inflight.oldest()
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
	oldest := x.inflight.oldest()
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
	case r.question == timeQuestion:
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
