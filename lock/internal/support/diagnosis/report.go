package diagnosis

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is one thing that is missing or dangerous, and what to do.
type Finding struct {
	Text string
	Errs []error // the errors of the server or the connection; perhaps none
}

// Report collects the answers of one server. Its zero value is empty.
type Report struct {
	problems []Finding
	untried  []Finding // why rights were not tried; the last of the problems
	advice   []Finding
	groups   [groups]rights
	told     map[string]bool // states that are among the problems

	isSentinel bool // so rights and commands say nothing
}

// rights has the rights of one group, the ones that the user has and the missing ones.
type rights struct {
	commands, keys, channels kind
}

// kind is one kind of rights.
type kind struct {
	had    int      // how many the user has, without those of list; not counted for channels
	lacks  []string // in the order in which they were tried
	absent []string // commands that the server does not know
	errs   []error
}

// have counts a command that the user has. What "wheellock list" needs beside its own says nothing
// about the kinds of locks that the user is meant to have.
func (k *kind) have(command string) {
	if command != "hget" && command != "hrandfield" && command != "llen" {
		k.had++
	}
}

func (k *kind) lack(name string, err error) {
	if !slices.Contains(k.lacks, name) {
		k.lacks = append(k.lacks, name)
		k.errs = append(k.errs, err)
	}
}

// Problem adds a problem.
func (r *Report) Problem(text string, errs ...error) {
	r.problems = append(r.problems, Finding{text, errs})
}

// Advice adds advice.
func (r *Report) Advice(text string, errs ...error) { r.advice = append(r.advice, Finding{text, errs}) }

// State reports whether err says that the server is in a state in which it takes no locks.
// It records that state once.
func (r *Report) State(err error) bool {
	text := stateOf(err)
	if text == "" {
		return false
	}
	if !r.told[text] {
		if r.told == nil {
			r.told = make(map[string]bool)
		}
		r.told[text] = true
		r.Problem(text, err)
	}
	return true
}

// Command records the answer to a command. It reports whether the command was carried out,
// or would have been.
func (r *Report) Command(g Group, name string, err error) bool {
	rs := &r.groups[g]
	switch meaningOf(err) {
	case noCommand:
		rs.commands.lack(name, err)
	case noKey, noChannel: // keys and channels are tried separately
		rs.commands.have(name)
	case unknown:
		if k := &rs.commands; !slices.Contains(k.absent, name) {
			k.absent = append(k.absent, name)
			k.errs = append(k.errs, err)
		}
	case state:
		r.State(err)
	case unanswered:
	default:
		rs.commands.have(name)
		return true
	}
	return false
}

// Key records the answer to a script with that key.
func (r *Report) Key(k Key, err error) {
	rs := &r.groups[k.Group]
	switch meaningOf(err) {
	case noKey:
		rs.keys.lack(k.Name, err)
	case state:
		r.State(err)
	case fine:
		rs.keys.had++
	}
}

// Undeclared records the answer to a script that uses a key of Family which its call does not name.
func (r *Report) Undeclared(err error) {
	if r.State(err) || err == nil || meaningOf(err) != fine { // a right that is missing was tried before
		return
	}
	r.Problem("the server refuses keys that the call of a script does not name in KEYS, so a RWMutex cannot have readers. "+
		"All other locks work, so a program without RWMutex can ignore this: for readers, allow undeclared keys if the server can", err)
}

// Channel records the answer to a command of Core about that channel.
func (r *Report) Channel(k Key, command string, err error) {
	if meaningOf(err) == noChannel {
		begins := func(lacked string) bool { return strings.HasPrefix(k.Name, lacked+":") }
		if k.Group == Core || !slices.ContainsFunc(r.groups[Core].channels.lacks, begins) { // one pattern is one problem
			r.groups[k.Group].channels.lack(k.Name, err)
		}
		return
	}
	r.Command(Core, command, err)
}

// Tried reads the answer of script check, which has the answers to SET and to calls.
func (r *Report) Tried(calls []Call, answers []any) {
	if len(answers) == 0 {
		r.Problem("the server answered a script with an empty list: check that no proxy in front of it changes answers")
		return
	}
	set := errorOf(answers[0])
	r.Command(Core, "set", set)
	answers = answers[1:]
	if len(answers) != len(calls) { // nothing may be written, or not be removed
		for _, answer := range answers {
			r.Command(Core, "del", errorOf(answer))
		}
		if len(r.problems) == 0 {
			r.untried = append(r.untried, Finding{"the other rights were not tried, because that needs a key that is written and removed: " +
				"first give the user +set +del", []error{set}})
		}
		return
	}
	refused := false // one setting is one problem, however many commands it concerns
	for i, call := range calls {
		err := errorOf(answers[i])
		switch {
		case call.Newer && meaningOf(err) == unknown:
		case call.Channel.Name != "":
			r.Channel(call.Channel, call.Command(), err)
		case meaningOf(err) == undetermined:
			if !refused {
				r.Problem("the server refuses the writes of a script after a read, although the script has chosen how it is replicated, so renewals and releases are refused: set lua-replicate-commands yes", err)
			}
			refused = true
		case !call.Undetermined:
			r.Command(call.Group, call.Command(), err)
		}
	}
}

// errorOf returns a part of an answer as an error, or nil if it is none.
func errorOf(answer any) error {
	err, _ := answer.(error)
	return err
}

// Findings returns the problems and the advice.
func (r *Report) Findings() (problems, advice []Finding) {
	problems, advice = slices.Clone(r.problems), slices.Clone(r.advice)
	if r.isSentinel {
		return problems, advice
	}
	core, family := &r.groups[Core], &r.groups[Family]
	problems = append(problems, core.findings("")...)
	const objects = "FairMutex, FencedMutex, RWMutex, semaphores and latches"
	if family.meant() {
		problems = append(problems, family.findings(" (for "+objects+")")...)
	} else {
		advice = append(advice, Finding{"the user has the rights for Mutex, MultiLock and RedLock, but not those for " + objects +
			": if you use these, give it the second list in lock/SERVERS.md", nil})
	}
	return append(problems, r.untried...), advice
}

// meant reports whether the user seems to be intended to have the group.
func (rs *rights) meant() bool {
	none := func(k kind) bool { return k.had == 0 && len(k.lacks) > 0 }
	return !none(rs.commands) && !none(rs.keys)
}

// findings returns the missing rights. what names the objects that need them.
func (rs *rights) findings(what string) (found []Finding) {
	add := func(names []string, errs []error, format string, more ...any) {
		if len(names) > 0 {
			found = append(found, Finding{fmt.Sprintf(format, append([]any{strings.Join(names, ", "), what}, more...)...), errs})
		}
	}
	commands, grants := &rs.commands, "" // as for ACL SETUSER
	for _, c := range commands.lacks {
		grants += " +" + strings.ReplaceAll(c, " ", "|")
	}
	add(commands.lacks, commands.errs, "the user may not run %s%s: give it the right, ACL SETUSER <user>%s", grants)
	add(commands.absent, commands.errs, "the server does not know %s%s: use Redis 5 or newer, or 7 for sharded pub/sub, check that no proxy in front of it blocks commands, "+
		"and that the command is not renamed")
	add(rs.keys.lacks, rs.keys.errs, "the user may not use keys such as %s%s: give it the patterns of keys that lock/SERVERS.md lists, for the Config.KeyPrefix of this client")
	add(rs.channels.lacks, rs.channels.errs, "the user may not use channels such as %s%s: give it the patterns of channels that lock/SERVERS.md lists")
	return found
}

// Sentinel records that the server is a Sentinel, which has no locks.
func (r *Report) Sentinel() {
	r.isSentinel = true
	r.Problem("this is a Sentinel, which has no locks: write redis-sentinel://HOST:PORT?master=NAME, or use package lock/sentinel", nil)
}

// Refused is like Command, but reports whether the server refused because of a missing right.
func (r *Report) Refused(g Group, name string, err error) bool {
	if meaningOf(err) != noCommand {
		return false
	}
	r.Command(g, name, err)
	return true
}

// Untried records that no script could be run, so most of the rights were not tried.
func (r *Report) Untried(err error) {
	if !r.State(err) {
		r.untried = append(r.untried, Finding{"no script can be run, so the other rights were not tried: fix the cause of the error, " +
			"and check again", []error{err}})
	}
}
