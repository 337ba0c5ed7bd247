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

import _ "embed"

// Script is one Lua script. Scripts are immutable.
type Script struct {
	name string
	text string
	sha  any // a string, boxed once

	expires bool
}

//go:embed expire.lua
var expireText string

// expiring returns a script that is not carried out after a time that the call names.
func expiring(name, text, sha string) *Script { return &Script{name, expireText + text, sha, true} }

//go:embed mint.lua
var mintText string

// minting returns an expiring script that mints fencing tokens.
func minting(name, text, sha string) *Script { return expiring(name, mintText+text, sha) }

// Expires reports whether the last argument is the time of the server, in ms since 1970,
// after which the script is not carried out; 0 is no limit.
func (s *Script) Expires() bool { return s.expires }

// Name is the file's name without ".lua".
func (s *Script) Name() string { return s.name }

// Text is the source of the script as it is sent.
func (s *Script) Text() string { return s.text }

// SHA is the lower-case hexadecimal SHA-1 of Text, as EVALSHA needs it. It is a
// constant, because a FIPS process cannot compute SHA-1. A test compares it with
// the text.
func (s *Script) SHA() string { return s.sha.(string) }

// SHAArg is SHA as an argument of a command, without an allocation.
func (s *Script) SHAArg() any { return s.sha }

//go:embed acquire.lua
var acquireText string

//go:embed reenter.lua
var reenterText string

//go:embed release.lua
var releaseText string

//go:embed handoff.lua
var handoffText string

//go:embed force.lua
var forceText string

//go:embed guard.lua
var guardText string

//go:embed inspect.lua
var inspectText string

//go:embed renew.lua
var renewText string

//go:embed uptime.lua
var uptimeText string

//go:embed token.lua
var tokenText string

//go:embed check.lua
var checkText string

// The scripts. Each file's header names KEYS, ARGV and every answer.
var (
	Acquire = minting("acquire", acquireText, "0153ea200fb1c58952098dc6a3913f3c19e90956")
	Reenter = expiring("reenter", reenterText, "698bee1d6be06712098d45015a2b71249b1a41f6")
	Release = &Script{"release", releaseText, "4e95e5f00349e31928aebab762328be9a8022974", false}
	Handoff = minting("handoff", handoffText, "75388af7a6cbd07b469ec3933d541a93e8b339da")
	Force   = &Script{"force", forceText, "4e04ca02d3725b60c35841c9e7b93041344663ba", false}
	Guard   = expiring("guard", guardText, "e9ed204bbcfe44bc266eb4dafcc733ba68bd2100")
	Inspect = &Script{"inspect", inspectText, "2886b82180fba8066dab35a8bcc021aa28560d52", false}
	Renew   = expiring("renew", renewText, "daf37aa8273f52a3fda7015072a71ee04ce42ebe")
	Uptime  = &Script{"uptime", uptimeText, "51dc2e2569e43961e5fe97b745e2a2dc6ce5569e", false}
	Token   = minting("token", tokenText, "656844cd996de8dc247db314cdd269842d264cd7")
	Check   = &Script{"check", checkText, "bd0e22dc9f05b0e9d51b3dbdcb336af59a7d1c09", false}
)

// All returns every script of the package.
func All() []*Script {
	return append([]*Script{Acquire, Reenter, Release, Handoff, Force, Guard, Inspect, Renew, Uptime, Token, Check}, family()...)
}
