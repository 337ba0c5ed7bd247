package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// Once is a request to an object without owners. Its script keeps the result under a key of its
// own, so that a copy of the request changes nothing.
type Once struct {
	Script *script.Script
	Object string   // its first key
	Result string   // where the script keeps what it brought
	Keys   []string // others
	Args   []any
	Keep   time.Duration // for how long
	// Publish is the command that publishes. It is nil for PUBLISH, and for a script that does
	// not publish.
	Publish any
}

// Call is the script's.
func (o Once) Call() Call {
	all := resp.ArgsOf(o.Object, o.Result).AddStrings(o.Keys).AddAny(o.Args...).AddInt(Milliseconds(o.Keep))
	return Call{Script: o.Script, Keys: 2 + len(o.Keys), Args: published(all, o.Publish)}
}

// SemaphoreUndo undoes the request whose result has the key result.
func SemaphoreUndo(name, result string, keep time.Duration, publish any) Call {
	return Call{Script: script.SemaphoreUndo, Keys: 2, Args: published(resp.ArgsOf(name, result, keys.SemaphoreChannel(name), Milliseconds(keep)), publish)}
}

// ReadTaken reads the answer of semaphore_take, which is also Granted if nothing was free.
func ReadTaken(op string, reply resp.Reply) Outcome {
	o := Outcome{Result: Granted}
	if !numbers(reply, &o.Taken, &o.Free) {
		return OddAnswer(op, reply.Any())
	}
	return o
}

// Count asks for the text of a counter. The answer is nil if there is none.
func Count(key string) Call { return Call{Script: script.Count, Keys: 1, Args: resp.ArgsOf(key)} }

// SemaphoreTTL asks how long a semaphore still lives, in ms: -1 it does not end, -2 there is none.
func SemaphoreTTL(name string) Call {
	return Call{Script: script.SemaphoreTTL, Keys: 1, Args: resp.ArgsOf(name)}
}
