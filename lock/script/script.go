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
	Acquire = &Script{"acquire", acquireText, "5acbeb72b533cf64e273616da012506f95b4e780"}
	Reenter = &Script{"reenter", reenterText, "8b0304f3c54e7b843c621f48d981605823cf606a"}
	Release = &Script{"release", releaseText, "d1b3520c38f8153983b97a84d790fe3093ba2922"}
	Handoff = &Script{"handoff", handoffText, "afad6498321b48c1ea1700dbe28e2360a37b89e0"}
	Force   = &Script{"force", forceText, "492a59172a5ccf3fbad778190c0929bc91f0e3e7"}
	Guard   = &Script{"guard", guardText, "0d5a9efcb7b9d17b65a82cb9725e0470c1b0392d"}
	Inspect = &Script{"inspect", inspectText, "e26bfae6d7a87bd59a63bbac265bcca502b7be87"}
	Renew   = &Script{"renew", renewText, "da30a3650ca47ac22b65c79b471ee065dd56573b"}
	Uptime  = &Script{"uptime", uptimeText, "51dc2e2569e43961e5fe97b745e2a2dc6ce5569e"}
	Token   = &Script{"token", tokenText, "96161e8af844f95ad3695b94f1e6e48b56982376"}
)

// All returns every script of the package.
func All() []*Script {
	return append([]*Script{Acquire, Reenter, Release, Handoff, Force, Guard, Inspect, Renew, Uptime, Token}, family()...)
}
