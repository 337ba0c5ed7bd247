// Package script holds the Lua scripts of package lock as text. They are what a
// client sends by EVALSHA; look here to review them, to load them ahead of time
// or to write an ACL rule. A changed script has a new SHA, and CHANGELOG.md says
// whether clients with the old and the new one may share a Redis.
//
// Every script may arrive twice, late or out of order and touches only the hold
// whose field it names. Data keys stand in KEYS and share a slot; channels are
// arguments; expiry is always relative; all commands exist since Redis 4, and the one
// newer option is done without where it is not known.
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

//go:embed token.lua
var tokenText string

// The scripts. Each file's header names KEYS, ARGV and every answer.
var (
	Acquire = &Script{"acquire", acquireText, "3a6d68b1eadc65baca1afe58d1d9cd4b451bcec0"}
	Reenter = &Script{"reenter", reenterText, "5b73adf0d45f67a63f6f7199455ffe20b7ed9128"}
	Release = &Script{"release", releaseText, "94dcf313eb35522b878b0c39c60d08db2f988ac2"}
	Handoff = &Script{"handoff", handoffText, "241ab78159295bee7041eaea7718c74ce8c6caf0"}
	Force   = &Script{"force", forceText, "4e04ca02d3725b60c35841c9e7b93041344663ba"}
	Guard   = &Script{"guard", guardText, "382050752999bf066d657a3e5c58eeb45e65116e"}
	Inspect = &Script{"inspect", inspectText, "2886b82180fba8066dab35a8bcc021aa28560d52"}
	Renew   = &Script{"renew", renewText, "00eddc5487c44ebf64dda224d7b42fdf7b96d06b"}
	Uptime  = &Script{"uptime", uptimeText, "51dc2e2569e43961e5fe97b745e2a2dc6ce5569e"}
	Token   = &Script{"token", tokenText, "96161e8af844f95ad3695b94f1e6e48b56982376"}
)

// All returns every script of the package.
func All() []*Script {
	return append([]*Script{Acquire, Reenter, Release, Handoff, Force, Guard, Inspect, Renew, Uptime, Token}, family()...)
}
