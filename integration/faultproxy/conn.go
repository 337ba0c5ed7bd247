package faultproxy

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// conn is one connection through a Proxy.
type conn struct {
	p              *Proxy   // immutable
	client, server net.Conn // immutable; server is nil if there is none
	flow           *gate    // shut while this connection alone is held back
	subscribed     atomic.Bool

	writing sync.Mutex // held while an answer is on its way to the client; guards muted
	muted   bool       // the client gets nothing any more

	mu      sync.Mutex // guards what follows; taken after writing
	changed sync.Cond  // on mu: signalled when pending or ended changes
	pending []answer   // to the commands that were sent, in order
	ended   bool
}

// answer is what a client gets for a command.
type answer struct {
	ours   bool   // the proxy answers, and the server does not get the command
	reply  []byte // if set, the client gets this instead of the server's reply
	drop   bool   // the client does not get this answer
	mute   bool   // the client gets no later answer either
	hangUp bool   // the connection ends instead of this answer
	script bool   // the command calls a script, so Proxy.unanswered counts it until it is answered
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	dial, ends := p.server, p.generation
	p.mu.Unlock()
	c := &conn{p: p, client: client, flow: newGate()}
	c.changed.L = &c.mu
	if dial != nil {
		server, err := dial()
		if err != nil {
			c.reset()
			return
		}
		c.server = server
	}
	p.mu.Lock()
	p.conns[c] = true
	if p.closed || p.generation != ends {
		c.reset()
	}
	p.mu.Unlock()
	done := make(chan struct{})
	p.wg.Go(func() {
		defer close(done)
		c.forwardCommands()
	})
	if c.server != nil {
		c.forwardReplies()
	}
	<-done
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

func (c *conn) hasSubscribed() bool { return c.subscribed.Load() }

// reset closes both ends with RST, so data in flight is lost.
func (c *conn) reset() {
	for _, end := range []net.Conn{c.client, c.server} {
		if tcp, ok := end.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		if end != nil {
			_ = end.Close()
		}
	}
}

func (c *conn) hangUp() { _ = c.client.Close() }

// close ends the connection. Pending commands get no answer.
func (c *conn) close() {
	c.mu.Lock()
	c.ended = true
	for _, a := range c.pending {
		c.p.countAnswered(a)
	}
	c.pending = nil
	c.changed.Broadcast()
	c.mu.Unlock()
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// forwardCommands passes on the client's commands, and ends when all are answered.
func (c *conn) forwardCommands() {
	defer c.close()
	r := bufio.NewReaderSize(trafficReader{c.client, &c.p.requests}, 64<<10)
	for {
		args, err := ReadCommand(r)
		if err != nil || !c.applyFate(Command{Args: args, Script: scriptOf(args)}) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.server != nil && !c.ended && !c.hasSubscribed() && len(c.pending) > 0 {
		c.changed.Wait()
	}
}

// applyFate applies the fate of a command. It returns false if the connection is to end.
func (c *conn) applyFate(cmd Command) bool {
	if strings.HasSuffix(strings.ToUpper(cmd.Args[0]), "SUBSCRIBE") {
		c.subscribed.Store(true)
	}
	c.p.holdFlowIfNext(c, cmd.Script)
	_ = c.flow.pass(nil) // until Heal or Close opens it
	fate, script := c.p.decideFate(cmd), cmd.Script != ""
	if fate.kind == pass && (c.server == nil || c.p.requests.lose.Load()) {
		fate = LoseRequest
	}
	switch fate.kind {
	case loseRequest, afterCalls, late:
		return c.queueAnswer(answer{ours: true, drop: true, mute: true, script: script})
	case answered:
		return c.queueAnswer(answer{ours: true, reply: fate.reply, script: script})
	case hangUp:
		return c.queueAnswer(answer{ours: true, drop: true, hangUp: true, script: script})
	case twice:
		if !c.queueAnswer(answer{drop: true}) || !c.sendCommand(cmd) {
			return false
		}
	}
	return c.queueAnswer(answer{reply: fate.reply, drop: fate.kind == loseReply, mute: fate.kind == loseReply, script: script}) && c.sendCommand(cmd)
}

func (c *conn) sendCommand(cmd Command) bool {
	_, err := c.server.Write(appendCommand(nil, cmd.Args))
	return err == nil
}

// queueAnswer notes the answer to a command before the command is sent, so that no reply comes
// too early. An answer of our own is delivered at once if it is next.
func (c *conn) queueAnswer(a answer) bool {
	c.mu.Lock()
	switch {
	case c.ended:
		c.p.countAnswered(a)
		c.mu.Unlock()
		return false
	case a.ours || !c.hasSubscribed():
		c.pending = append(c.pending, a)
	}
	c.mu.Unlock()
	if !a.ours {
		return true
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.deliverOwn()
}

// popAnswer takes the first pending answer, if the proxy gives it itself or the server has answered.
func (c *conn) popAnswer(server bool) (a answer, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 || !c.pending[0].ours && !server {
		return answer{}, false
	}
	a, c.pending = c.pending[0], c.pending[1:]
	c.changed.Broadcast()
	return a, true
}

// deliverOwn gives the client our own answers that come next. It needs writing.
func (c *conn) deliverOwn() bool {
	for a, ok := c.popAnswer(false); ok; a, ok = c.popAnswer(false) {
		if !c.deliver(a, nil) {
			return false
		}
	}
	return true
}

// forwardReplies passes on the server's replies and messages.
func (c *conn) forwardReplies() {
	defer c.close()
	for r := bufio.NewReaderSize(trafficReader{c.server, &c.p.replies}, 64<<10); ; {
		reply, err := appendRawReply(nil, r)
		if err != nil || !c.passReply(reply) {
			return
		}
	}
}

func (c *conn) passReply(reply []byte) bool {
	_ = c.flow.pass(nil)
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.deliverOwn() {
		return false
	}
	var a answer // a message to a subscriber answers nothing
	if !c.hasSubscribed() {
		a, _ = c.popAnswer(true)
	}
	a.mute = a.mute || c.p.replies.lose.Load()
	return c.deliver(a, reply) && c.deliverOwn()
}

// push sends the client a message that it did not ask for.
func (c *conn) push(reply []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.deliver(answer{}, reply)
}

// deliver gives the client an answer, or the server's reply. It needs writing.
func (c *conn) deliver(a answer, reply []byte) bool {
	defer c.p.countAnswered(a)
	c.muted = c.muted || a.mute
	if a.reply != nil {
		reply = a.reply
	}
	switch {
	case a.hangUp:
		return false
	case a.drop || c.muted:
		return true
	}
	_, err := c.client.Write(reply)
	c.muted = err != nil // the client has left; its commands still count as answered
	return true
}
