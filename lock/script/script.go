// Package script holds the Lua scripts of package lock as text. They are what a
// client sends by EVALSHA; look here to review them, to load them ahead of time
// or to write an ACL rule. A changed script has a new SHA, and CHANGELOG.md says
// whether clients with the old and the new one may share a Redis.
//
// Every script may arrive twice, late or out of order and touches only the hold
// whose field it names. Data keys stand in KEYS and share a slot; channels are
// arguments; expiry is always relative; all commands exist since Redis 4.
package script

import _ "embed"

// Script is one Lua script. Scripts are immutable.
type Script struct {
	name string
	text string
	sha  string
}

// Name is the file's name without ".lua".
func (s *Script) Name() string { return s.name }

// Text is the script as it is sent.
func (s *Script) Text() string { return s.text }

// SHA is the lower-case hexadecimal SHA-1 of Text, as EVALSHA wants it. It is
// written down instead of computed, because SHA-1 is not to be had in a FIPS
// process; a test compares it with the text.
func (s *Script) SHA() string { return s.sha }

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

// The scripts. Each file's header names KEYS, ARGV and every answer.
var (
	Acquire = &Script{"acquire", acquireText, "f5178089e786e57e2a6688089e79a47f843d47b3"}
	Reenter = &Script{"reenter", reenterText, "a551dae03e7ba85ace217f5d7176084c16413305"}
	Release = &Script{"release", releaseText, "35af5c86cbf8b4ad982116e542685f8c2756940d"}
	Handoff = &Script{"handoff", handoffText, "05a0bb607d612d04aebe9722c6a3f26be94379dc"}
	Force   = &Script{"force", forceText, "8daba5546481f0d678e33d1e2ddef55f1983192f"}
	Guard   = &Script{"guard", guardText, "923d53d60a3cf4f358e281912d3ef1e461dffd64"}
	Inspect = &Script{"inspect", inspectText, "e26bfae6d7a87bd59a63bbac265bcca502b7be87"}
	Renew   = &Script{"renew", renewText, "663b83ddd15ed7ece2ab285f293d812973c797fb"}
	Uptime  = &Script{"uptime", uptimeText, "51dc2e2569e43961e5fe97b745e2a2dc6ce5569e"}
)

// All returns every script of the package.
func All() []*Script {
	return append([]*Script{Acquire, Reenter, Release, Handoff, Force, Guard, Inspect, Renew, Uptime}, family()...)
}
