package faultproxy

import (
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/script"
)

// Command is a command that a client has sent.
type Command struct {
	Args   []string
	Script string // the name of the script of package lock that it calls; empty if it calls none
}

// Fate is what becomes of a command. The zero Fate passes it on.
type Fate struct {
	kind  kind
	after time.Duration
	reply []byte
}

type kind int

const (
	pass kind = iota
	loseRequest
	loseReply
	twice
	afterCalls
	late
	answered
	mangled
	hangUp
)

var (
	Pass        = Fate{}
	LoseRequest = Fate{kind: loseRequest} // it never arrives
	LoseReply   = Fate{kind: loseReply}   // it arrives, its answer is lost
	Twice       = Fate{kind: twice}       // it arrives twice
	AfterThree  = Fate{kind: afterCalls}  // it arrives after the next three calls of scripts by any client
	HangUp      = Fate{kind: hangUp}      // the connection ends
)

// Late makes a command arrive after d.
func Late(d time.Duration) Fate { return Fate{kind: late, after: d} }

// Answer makes the proxy answer. The server does not get the command.
// See AppendReply for what reply may be.
func Answer(reply any) Fate { return Fate{kind: answered, reply: AppendReply(nil, reply)} }

// Mangle replaces the server's answer.
func Mangle(reply any) Fate { return Fate{kind: mangled, reply: AppendReply(nil, reply)} }

func (f Fate) String() string {
	return [...]string{"passed", "request lost", "reply lost", "sent twice", "after three calls", "late", "answered", "answer replaced", "hung up"}[f.kind]
}

// scriptNames has the names of package lock's scripts by their SHA and by their text.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, s := range script.All() {
		names[s.SHA()], names[s.Text()] = s.Name(), s.Name()
	}
	return names
})

func scriptOf(args []string) string {
	if len(args) < 2 || args[0] != "EVAL" && args[0] != "EVALSHA" {
		return ""
	}
	return scriptNames()[args[1]]
}

// decideFate waits while HoldBack holds the command back, and returns its fate. It also sends the
// commands that have waited for it.
func (p *Proxy) decideFate(cmd Command) Fate {
	if cmd.Script != "" {
		p.unanswered.Add(1)
		p.mu.Lock()
		p.arrived[cmd.Script]++
		kept := p.heldBack[cmd.Script]
		p.mu.Unlock()
		if kept != nil {
			<-kept
		}
	}
	fate := Pass
	if p.decide != nil {
		fate = p.decide(cmd)
	}
	var due []*waiting
	p.mu.Lock()
	if cmd.Script != "" {
		p.waiting = slices.DeleteFunc(p.waiting, func(w *waiting) bool {
			if w.calls--; w.calls <= 0 {
				due = append(due, w)
			}
			return w.calls <= 0
		})
	}
	if fate.kind != pass {
		p.faults[cmd.Script+": "+fate.String()]++
	}
	switch fate.kind {
	case afterCalls:
		p.waiting = append(p.waiting, &waiting{calls: 3, args: cmd.Args})
	case late:
		p.late++
		p.wg.Go(func() { p.sendLate(cmd.Args, fate.after) })
	}
	p.mu.Unlock()
	for _, w := range due {
		p.sendAlone(w.args)
	}
	return fate
}

func (p *Proxy) countAnswered(a answer) {
	if a.script {
		p.unanswered.Add(-1)
	}
}

// HoldBack holds back the calls of these scripts from now on.
func (p *Proxy) HoldBack(scripts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range scripts {
		p.heldBack[name] = make(chan struct{})
		p.arrived[name] = 0
	}
}

// LetThrough ends HoldBack for these scripts, for all if none is named. All calls arrive, even if
// their connection was given up.
func (p *Proxy) LetThrough(scripts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, kept := range p.heldBack {
		if len(scripts) == 0 || slices.Contains(scripts, name) {
			close(kept)
			delete(p.heldBack, name)
		}
	}
}

// Arrived returns how many calls of a script have come to p since HoldBack.
func (p *Proxy) Arrived(script string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arrived[script]
}

// HasSettled reports whether no call that has come can still reach the server. It does not
// count calls that are sent late.
func (p *Proxy) HasSettled() bool { return p.unanswered.Load() == 0 }

// Faults returns how many commands had another fate than Pass, and how many of each script and fate.
func (p *Proxy) Faults() (total int, of map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of = map[string]int{}
	for what, n := range p.faults {
		of[what] = n
		total += n
	}
	return total, of
}

// SendLate sends the commands that wait for later calls. It reports whether no command is
// left to be sent late.
func (p *Proxy) SendLate() bool {
	p.mu.Lock()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, w := range waiting {
		p.sendAlone(w.args)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late == 0 && len(p.waiting) == 0
}

func (p *Proxy) sendLate(args []string, after time.Duration) {
	select {
	case <-time.After(after):
	case <-p.stop:
	}
	p.sendAlone(args)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late--
}

// sendAlone carries out a command whose caller has long given up.
func (p *Proxy) sendAlone(args []string) {
	p.mu.Lock()
	dial := p.server
	p.mu.Unlock()
	if dial == nil {
		return
	}
	c, err := dial()
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write(appendCommand(nil, args)); err == nil {
		_, _ = c.Read(make([]byte, 1)) // it was carried out
	}
}
