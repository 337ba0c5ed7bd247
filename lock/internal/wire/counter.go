package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// Once is a request to an object that has no owner: its script keeps what it brought under a
// key of its own, so that a copy of the request changes nothing.
type Once struct {
	Script *script.Script
	Object string   // its first key
	Result string   // where the script keeps what it brought
	Keys   []string // others
	Args   []any
	Keep   time.Duration // for how long
	// Publish is the command that publishes; nil if that is PUBLISH or the script publishes
	// nothing.
	Publish any
}

// Call is the script's.
func (o Once) Call() Call {
	args := make([]any, 0, len(o.Keys)+len(o.Args)+4)
	args = append(args, o.Object, o.Result)
	for _, k := range o.Keys {
		args = append(args, k)
	}
	args = append(append(args, o.Args...), Milliseconds(o.Keep))
	return Call{Script: o.Script, Keys: 2 + len(o.Keys), Args: published(args, o.Publish)}
}

// SemaphoreUndo gives back what the request brought whose result that is.
func SemaphoreUndo(name, result string, keep time.Duration, publish any) Call {
	return Call{Script: script.SemaphoreUndo, Keys: 2, Args: published([]any{name, result, keys.SemaphoreChannel(name), Milliseconds(keep)}, publish)}
}

// ReadTaken reads the answer of semaphore_take: how many permits were taken, and how many are
// free.
func ReadTaken(reply any) (taken, free int64, ok bool) {
	ok = numbers(reply, &taken, &free)
	return taken, free, ok
}

// Count asks for the text of a counter; nil: there is none.
func Count(key string) Call { return Call{Script: script.Count, Keys: 1, Args: []any{key}} }

// SemaphoreTTL asks how long a semaphore still lives, in ms: -1 it does not end, -2 there is none.
func SemaphoreTTL(name string) Call {
	return Call{Script: script.SemaphoreTTL, Keys: 1, Args: []any{name}}
}
