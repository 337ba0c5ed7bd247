package wire

import (
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// Outcome says how a call that takes something ended: a script that was answered, one that was not,
// or a call that did not come to a script. It travels unchanged from the reader of the answer to
// package lock, which makes an error for the user from it.
type Outcome struct {
	Result Result
	End    End

	// Op is what Redis was asked for, which the error names. Cause is Redis' reply or the error of
	// the connection, of Unknown, NotSent and Denied. If Op is "", Cause is the caller's error.
	Op    string
	Cause error
	// IsMoved says, of Denied, that Redis named another server. It may have become a replica.
	IsMoved bool

	Token    int64 // of Granted, for a kind that has tokens: above 0
	Reserved int64 // of Granted: how many tokens behind Token are reserved

	TTL time.Duration // of Refused: what is left of the holder's lease; -1 if it never ends
	By  Holder        // of Refused
	// OthersWait says, of Refused, that Redis was not asked, because other calls of this client wait, or
	// the client itself holds the lock.
	OthersWait bool

	Wanted int64         // permits, or replicas of NotReplicated; 0 if a lock was wanted
	Taken  int64         // how many of them there were
	Free   int64         // how many others can still take
	Next   time.Duration // of Refused: when what was wanted may be free although no message says so; below 0 if that is not known
}

// Result says what an Outcome is.
type Result uint8

const (
	NotTried      Result = iota // there was no try
	Granted                     // the caller has what it wanted
	Refused                     // another has it, or too little is free
	Unknown                     // nobody knows whether the script ran, or the server is in a state that should pass
	NotSent                     // the script was not sent, because there was no connection
	Denied                      // it cannot be had in this way, whoever has it
	NotReplicated               // too few replicas had it, so it was given back
	Upgrade                     // the owner has it for reading and wants to write
	Gone                        // the hold that the script was about had ended
	Closed                      // the client is closing
)

// IsUnanswered reports whether there was no answer, so that another try may bring one.
func (r Result) IsUnanswered() bool { return r == Unknown || r == NotSent }

// End says why a call that waited tries no more, whatever its last try brought.
type End uint8

const (
	ByItself  End = iota // the last try says it all
	ByContext            // its context ended
	ByClose              // its client closes
)

// Holder is the holder of a lock that was refused.
type Holder uint8

const (
	Another  Holder = iota // owner, of another client
	Ours                   // another owner of this client
	Foreign                // another library
	Stranger               // Redisson
)

// OddAnswer is the Outcome of a script for op with an answer that the script does not give.
func OddAnswer(op string, answer any) Outcome {
	return Outcome{Result: Unknown, Op: op, Cause: fmt.Errorf("unexpected answer %.100q", fmt.Sprint(answer))}
}

// Failure is the Outcome of a call whose error its caller gets as it is.
func Failure(err error) Outcome { return Outcome{Result: Denied, Cause: err} }

// ReadPresence reads the answer of a script for op that changes a hold: Granted, or Gone if the
// hold was not there.
func ReadPresence(op string, reply resp.Reply) Outcome {
	switch n, ok := reply.Number(); {
	case ok && n == 1:
		return Outcome{Result: Granted}
	case ok && n == 0:
		return Outcome{Result: Gone}
	}
	return OddAnswer(op, reply.Any())
}
