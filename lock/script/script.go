// Package script holds the Lua scripts of package lock as text. A client sends
// them by EVALSHA. Use this package to review the scripts, to load them ahead of
// time or to write an ACL rule. A changed script has a new SHA. CHANGELOG.md says
// whether clients with the old and the new script may share a Redis. For authors:
// lock/internal/proof/twin has a model of every script, which must change with it.
//
// A script that takes or changes something has a time limit, which is an argument. After
// that time the script changes nothing, so a late request does no harm. The check is in
// expire.lua, which precedes the text of such a script. A script that only reads or
// releases has no limit.
//
// A request may arrive twice, late or out of order. A script changes only the hold whose
// field it names. Data keys are in KEYS and share a slot. Channels are arguments. Expiry
// is always relative. Nearly all commands exist since Redis 4. ZMSCORE, HRANDFIELD, the
// count of LPOP and the GT of PEXPIRE are newer, and the scripts work without them.
package script

import "slices"

// Script is one Lua script. Scripts are immutable.
type Script struct {
	name  string
	text  string
	sha   any // a string, boxed once
	trait trait
}

// trait is a property of a script that a client must know to send it.
type trait uint32

const (
	acquires  trait = 1 << iota // see Acquires
	concludes                   // see Concludes
	publishes                   // see Publishes
	large                       // see Large
	// Each of the following names a text that precedes the script's own text, in this order.
	expires   // expire.lua
	effects   // effects.lua
	clocks    // clock.lua
	mints     // mint.lua
	held      // gone.lua
	others    // foreign.lua
	fields    // rw_fields.lua
	takesRW   // rw_take.lua
	forces    // forced.lua
	permits   // permits.lua
	permitIDs // permit_id.lua
	once      // once.lua
	counts    // counter.lua
	remembers // remember.lua
	tells     // tell.lua
)

// preceding has the names of the texts that precede scripts, by trait from expires on.
var preceding = [...]string{"expire", "effects", "clock", "mint", "gone", "foreign", "rw_fields", "rw_take", "forced", "permits", "permit_id", "once", "counter", "remember", "tell"}

// define adds a script to the table. sha is a constant, because a FIPS process cannot
// compute SHA-1.
func define(name, sha string, t trait) *Script {
	s := &Script{name: name, sha: sha, trait: t}
	for i, before := range preceding {
		if t&(expires<<i) != 0 {
			s.text += source(before)
		}
	}
	s.text += source(name)
	all = append(all, s)
	return s
}

func source(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic("script: bug: " + err.Error())
	}
	return string(text)
}

// All returns every script of the package.
func All() []*Script { return slices.Clone(all) }

// Name returns the name of the file without ".lua".
func (s *Script) Name() string { return s.name }

// Text returns the source of the script as it is sent.
func (s *Script) Text() string { return s.text }

// SHA returns the lower-case hexadecimal SHA-1 of Text, as EVALSHA needs it.
func (s *Script) SHA() string { return s.sha.(string) }

// SHAArg returns SHA as an argument of a command, without an allocation.
func (s *Script) SHAArg() any { return s.sha }

// Expires reports whether the script has a time limit as its last argument. That is the
// server's time, in ms since 1970, after which the script changes nothing. 0 means no limit.
func (s *Script) Expires() bool { return s.trait&expires != 0 }

// Acquires reports whether the script takes a lock or permits for a hold. If the script did,
// the first number of its answer is above 0.
func (s *Script) Acquires() bool { return s.trait&acquires != 0 }

// Concludes reports whether the script uses keys that its call does not name, and may delete
// a lock because they do not exist. While their slot moves to another server of a Cluster,
// these keys may not have arrived there yet. So the script must not be sent to that server
// before the slot has moved. Keys that a call names have all arrived: otherwise the server
// answers TRYAGAIN.
func (s *Script) Concludes() bool { return s.trait&concludes != 0 }

// Publishes reports whether the script publishes a message. If Redis refuses the message, the
// script answers {number, error} in place of the number.
func (s *Script) Publishes() bool { return s.trait&publishes != 0 }

// Large reports whether the answer may be large, because it has all holders of a lock, the answer
// to a command of the caller, or a number for each id that it was given. Other scripts answer a few
// numbers, or a few for each key.
func (s *Script) Large() bool { return s.trait&large != 0 }
