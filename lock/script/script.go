// Package script holds the Lua scripts of package lock as text. A client sends
// them by EVALSHA. Use this package to review them, to load them ahead of time
// or to write an ACL rule. A changed script has a new SHA, and CHANGELOG.md says
// whether clients with the old and the new one may share a Redis.
//
// A script that takes or changes something has a time limit, which the call names. After
// that time the script refuses, so that a late request does no harm. The check is in
// expire.lua, which precedes the text of such a script. A script that only reads or
// releases has no limit.
//
// Every script may arrive twice, late or out of order. It changes only the hold whose
// field it names. Data keys stand in KEYS and share a slot. Channels are arguments.
// Expiry is always relative. All commands exist since Redis 4. One option is newer, and
// the scripts work without it.
package script

import "slices"

// Script is one Lua script. Scripts are immutable.
type Script struct {
	name  string
	text  string
	sha   any // a string, boxed once
	trait trait
}

// trait is what a client has to know of a script in order to send it.
type trait uint32

const (
	acquires  trait = 1 << iota // see Acquires
	concludes                   // see Concludes
	publishes                   // see Publishes
	large                       // see Large
	// Of the following each says which text precedes the script's own, in this order.
	expires   // expire.lua
	effects   // effects.lua
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

// preceding is the texts that precede scripts, by trait from expires on.
var preceding = [...]string{"expire", "effects", "mint", "gone", "foreign", "rw_fields", "rw_take", "forced", "permits", "permit_id", "once", "counter", "remember", "tell"}

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

// Name is the file's name without ".lua".
func (s *Script) Name() string { return s.name }

// Text is the source of the script as it is sent.
func (s *Script) Text() string { return s.text }

// SHA is the lower-case hexadecimal SHA-1 of Text, as EVALSHA needs it. A test compares it
// with the text.
func (s *Script) SHA() string { return s.sha.(string) }

// SHAArg is SHA as an argument of a command, without an allocation.
func (s *Script) SHAArg() any { return s.sha }

// Expires reports whether the last argument is the time of the server, in ms since 1970,
// after which the script is not carried out; 0 is no limit.
func (s *Script) Expires() bool { return s.trait&expires != 0 }

// Acquires reports whether the script takes something for a hold. The first number of its
// answer is above 0 if it did.
func (s *Script) Acquires() bool { return s.trait&acquires != 0 }

// Concludes reports whether the script deletes a lock because keys are not there, beside
// those that its call names. While their slot moves to another server of a Cluster, they may
// not have arrived yet. So the script may not be sent to that server before the slot has
// moved.
func (s *Script) Concludes() bool { return s.trait&concludes != 0 }

// Publishes reports whether the script answers {a number, the error} in the place of the
// number when Redis refuses its message.
func (s *Script) Publishes() bool { return s.trait&publishes != 0 }

// Large reports whether the answer may be large: all holders of a lock, or what a command
// of the caller's answers. Others answer a few numbers, and some for each key.
func (s *Script) Large() bool { return s.trait&large != 0 }
