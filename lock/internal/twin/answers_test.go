package twin

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/wheellock/wheellock/lock/script"
)

const channel = "c"

func text64(n int64) string { return strconv.FormatInt(n, 10) }

// leastOf is the least token of a request, by the clock of its client.
func (w *world) leastOf(m *msg) int64 { return (m.stamp - int64(m.client)*w.sc.behind) * tokenUnit }

// callOf is the script of a request.
func (w *world) callOf(m *msg) call {
	name := ""
	if m.kind != plain && m.kind != ofPermit && m.do != doForce {
		name = w.fieldName(m.seq)
	}
	ms := text64(m.lease())
	var fields []string
	for s := range int8(maxSeqs) {
		if m.set&(1<<s) == 0 {
			continue
		}
		if m.kind == ofPermit {
			fields = append(fields, permitNames[s]+"1")
		} else {
			fields = append(fields, w.fieldName(s))
		}
	}
	c := call{notAfter: m.notAfter, unit: tokenUnit, keys: []string{object}}
	switch m.do {
	case doLock, doLockFor:
		c.script, c.args = script.Acquire, append([]string{name, ms, text64(w.leastOf(m)), text64(tokenBlock * int64(m.more)), "0"}, fields...)
	case doRead:
		own := ""
		if m.own != none {
			own = w.fieldName(m.own)
		}
		c.script, c.keys = script.RwRead, []string{object, timeoutName[m.seq], writersOf}
		c.args = append([]string{name, ms, own, "1", "{k}", channel, "publish"}, fields...)
	case doWrite:
		c.script, c.keys = script.RwWrite, []string{object, writersOf}
		c.args = append([]string{name, ms, "w:" + strconv.Itoa(int(m.caller)), ms, "{k}", channel, "publish"}, fields...)
	case doPermit:
		c.script, c.keys = script.PermitTake, []string{object, takenOf}
		c.args = append([]string{permitNames[m.seq], "1", "0", text64(m.stamp + lease), text64(m.stamp), channel, "publish"}, fields...)
	case doRelock, doExtend, doUnlock:
		c.script, c.args = script.Reenter, []string{name, text64(int64(m.n)), ms}
		if m.kind == reading {
			c.script, c.keys = script.RwReadReenter, []string{object, timeoutName[m.seq]}
		}
	case doRelease:
		switch m.kind {
		case alone:
			c.script, c.args = script.Release, []string{name, channel, "publish"}
		case reading:
			c.script, c.keys = script.RwReadRelease, []string{object, timeoutName[m.seq], writersOf}
			c.args = []string{name, channel, "{k}", "publish"}
		case writing:
			c.script, c.keys = script.RwWriteRelease, []string{object, writersOf}
			c.args = []string{name, channel, "{k}", "publish"}
		case ofPermit:
			c.script, c.keys, c.args = script.PermitRelease, []string{object, takenOf}, []string{permitNames[m.seq] + "1", channel, "publish"}
		}
	case doRenew:
		c.script, c.args = script.Renew, []string{ms, "", name}
	case doHandOver:
		c.script, c.args = script.Handoff, []string{name, w.fieldName(m.toSeq), ms, text64(w.leastOf(m)), text64(tokenBlock * int64(m.more))}
		if m.over { // the one who is to get it listens, and he is one of the client's
			c.args = append(c.args, channel, "1", "publish", "0", "0")
		}
	case doGuard:
		c.script, c.keys, c.args = script.Guard, []string{object, guardedBy}, []string{name, "get"}
	case doForce:
		c.script, c.args = script.Force, append([]string{channel, "publish"}, fields...)
	case doTake:
		c.script, c.keys, c.args = script.SemaphoreTake, []string{object, resultNames[m.seq]}, []string{"1", text64(resultTTL)}
	case doGive:
		c.script, c.keys, c.args = script.SemaphoreAdd, []string{object, resultNames[m.seq]}, []string{"1", channel, text64(resultTTL), "publish"}
	case doUndo:
		c.script, c.keys, c.args = script.SemaphoreUndo, []string{object, resultNames[m.seq]}, []string{channel, text64(resultTTL), "publish"}
	case doDown:
		c.script, c.keys, c.args = script.LatchDown, []string{object, resultNames[m.seq]}, []string{channel, text64(resultTTL), "publish"}
	}
	if w.sc.tokens && (m.do == doLock || m.do == doHandOver) {
		c.keys = append(c.keys, counterOf)
	}
	return c
}

// renew carries out the watchdog's script for a hold, which is never lost on the
// way, and reports whether the hold was there.
func (w *world) renew(h hold) bool {
	c := call{script: script.Renew, keys: []string{object}, args: []string{text64(lease), "", w.fieldName(h.seq)}}
	if h.kind == reading {
		c.script = script.RwRenew
	}
	after, reply, _ := run(w.srv, w.clock(), c, each(0), w.sc.rules.flaw)
	w.srv = after
	return len(reply.([]any)) == 0
}

// arrive carries out a request, and tells its answer to who waits for it: an answer
// that is lost is the same as a request that is given up and arrives at once.
func (w *world) arrive(m msg) {
	c := w.callOf(&m)
	before := w.srv
	known := w.exists(resultNames[max(m.seq, 0)])
	after, reply, told := run(w.srv, w.clock(), c, each(w.listening()), w.sc.rules.flaw)
	if r, refused := reply.(refusal); refused {
		if !strings.HasPrefix(string(r), "LATE") {
			panic("twin: " + r)
		}
		w.said = "too late"
		w.late(m)
		return
	}
	w.srv, w.said = after, said(m.do, first(reply))
	if len(told) > 0 {
		w.wake()
	}
	switch m.do {
	case doGuard:
		if f := &w.seqs[m.seq]; len(reply.([]any)) == 2 {
			switch {
			case m.n <= f.begun:
				w.wrong("guard %d runs, and who sent it has handed the lock over", m.n)
			case f.guard > m.n:
				w.wrong("guard %d runs after guard %d of the same hold", m.n, f.guard)
			}
			f.guard = max(f.guard, m.n)
		}
	case doRead:
		if h := w.srv.at(object, w.clock()); first(reply) == 0 && h != nil && !w.exists(writersOf) && !writes(h) {
			w.wrong("a reader is kept out, and nobody writes or waits to")
		}
	case doForce:
		w.forced(before, m)
	case doDown:
		if !known {
			w.counted |= 1 << m.n
		}
		if left := w.counter(); w.sc.count-left > int64(bits.OnesCount16(w.counted)) {
			w.wrong("the latch of %d has %d to go after %d count-downs", w.sc.count, left, bits.OnesCount16(w.counted))
		}
	}
	if m.live {
		w.answered(m, reply)
	}
}

// said is an answer in words.
func said(do verb, n int64) string {
	switch {
	case do == doGive, do == doUndo, do == doUnlock, do == doRenew:
		return ""
	case do == doDown:
		return fmt.Sprintf("%d to go", n)
	case do == doRelease && n < 0:
		return "not there"
	case do == doRelease:
		return "it was there"
	case do == doHandOver && n == 2:
		return "released, for others wait"
	case n == 0:
		return "no"
	}
	return "yes"
}

// listening is how many clients have a caller that waits.
func (w *world) listening() int64 {
	var there [2]int64
	for i := range w.sc.does {
		if w.callers[i].phase == waiting {
			there[w.sc.clients[i]] = 1
		}
	}
	return there[0] + there[1]
}

func (w *world) exists(key string) bool { return w.srv.at(key, w.clock()) != nil }

func writes(h *entry) bool {
	for _, p := range h.pairs {
		if strings.HasSuffix(p.name, ":write") {
			return true
		}
	}
	return false
}

// forced marks the holds that a force has ended, as it should: their holders hear
// of it at their next renewal.
func (w *world) forced(before *server, m msg) {
	h := before.at(object, w.clock())
	if h == nil {
		return
	}
	now := w.srv.at(object, w.clock())
	for s := range int8(maxSeqs) {
		name := w.fieldName(s)
		if m.set&(1<<s) != 0 && h.find(name) >= 0 && (now == nil || now.find(name) < 0) {
			w.seqs[s].forced = true
		}
	}
}

// counter is the number at the object.
func (w *world) counter() int64 {
	e := w.srv.at(object, w.clock())
	if e == nil {
		return 0
	}
	n, _ := strconv.ParseInt(e.text, 10, 64)
	return n
}

// first is the number that an answer is, or that it begins with.
func first(reply any) int64 {
	switch v := reply.(type) {
	case int64:
		return v
	case []any:
		if len(v) > 0 {
			return v[0].(int64)
		}
	}
	return 0
}
