package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// Exit statuses of wheellock itself. Every other status comes from the command that it runs.
const (
	statusUnwritten   = 1 // the standard output cannot be written; not of run
	statusNotAcquired = 120
	statusLost        = 121
	statusUnknown     = 122
	statusUsage       = 125
	statusNotRunnable = 126
	statusNotFound    = 127
	statusSignal      = 128 // and the number of the signal
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// stdio holds the files that wheellock reads and writes and also gives to the command.
// They are files, so that nothing has to be copied from one process to the other.
type stdio struct{ in, out, err *os.File }

// program is one call of wheellock.
type program struct {
	env []string // immutable
	stdio
	lines lines // for err
}

func newProgram(env []string, files stdio) *program {
	p := &program{env: env, stdio: files}
	p.lines.init(p.err)
	return p
}

const usage = `Usage: wheellock run [flags] NAME -- command [argument...]
       wheellock inspect [flags] NAME
       wheellock unlock -force [flags] NAME
       wheellock list [flags]
       wheellock check [flags]
       wheellock version

run      runs a command while it holds the lock NAME, and ends it if the lock is lost
inspect  says who holds a lock
list     says which locks are held, by whom, and how many clients wait
unlock   takes a lock away from its holder
check    says what is missing on Redis
version  says which version this is

"wheellock help run" lists the flags of run, "wheellock help check" those of check.
Manual: go doc github.com/wheellock/wheellock/lock/cmd/wheellock
`

// run does what args say and returns the exit status.
func run(args, env []string, files stdio) int {
	outlivePipes()
	p := newProgram(env, files)
	defer p.lines.flush(flushTimeout)
	commands := map[string]func([]string) (int, error){"run": p.run, "inspect": p.inspect, "unlock": p.unlock, "list": p.list, "check": p.check, "version": p.version}
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "help":
		if len(args) == 0 {
			fmt.Fprint(p.out, usage)
			return 0
		}
		name, args = args[0], []string{"-h"}
	case "-h", "-help", "--help":
		fmt.Fprint(p.out, usage)
		return 0
	case "":
		p.lines.add(usage)
		return statusUsage
	}
	command, ok := commands[name]
	if !ok {
		p.say("%s", withoutURLs(fmt.Sprintf("there is no command %q: use run, inspect, list, unlock or check, see wheellock help", name), []string{name}))
		return statusUsage
	}
	status, err := command(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		text := plain(err)
		if statusOf(err) == statusUsage {
			text = withoutURLs(text, args)
		}
		p.say("%s", text)
		return statusOf(err)
	}
	return status
}

// version is the subcommand version. It adds the commit if the version does not name it.
func (p *program) version(args []string) (int, error) {
	if names, err := p.parse(newFlags("version", "Says which version of wheellock and Go this is."), args); err != nil || len(names) > 0 {
		return 0, cmp.Or(err, usagef("version: it takes no arguments"))
	}
	text := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		text = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && !strings.Contains(text, s.Value[:min(12, len(s.Value))]) {
				text += " " + s.Value
			}
		}
	}
	return 0, p.print(fmt.Sprintf("wheellock %s %s %s/%s\n", text, runtime.Version(), runtime.GOOS, runtime.GOARCH))
}

// withoutURLs replaces each of args that has a URL in a text, because a URL may have a password.
func withoutURLs(text string, args []string) string {
	for _, arg := range args {
		_, value, _ := strings.Cut(arg, "=") // of a flag
		for _, part := range []string{arg, value} {
			if strings.Contains(part, "://") {
				quoted := strconv.Quote(part)
				text = strings.NewReplacer(part, "<URL>", quoted[1:len(quoted)-1], "<URL>").Replace(text)
			}
		}
	}
	return text
}

// lookupEnv returns the value of a variable of p.env, and whether it is set.
func (p *program) lookupEnv(name string) (value string, set bool) {
	for _, entry := range p.env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// statusError is an error with its exit status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// usagef returns an error that the user can correct on the command line.
func usagef(format string, args ...any) error {
	return &statusError{statusUsage, fmt.Sprintf(format, args...)}
}

// statusOf returns the exit status of an error.
func statusOf(err error) int {
	var own *statusError
	var refused redis.Error
	switch {
	case errors.As(err, &own):
		return own.status
	case gotNoAnswer(err), errors.Is(err, lock.ErrNotALock):
		return statusUnknown
	case errors.Is(err, lock.ErrLost): // it may unwrap to what Redis answered
		return statusLost
	case errors.As(err, &refused):
		return statusUnknown
	case errors.Is(err, lock.ErrNotAcquired):
		return statusNotAcquired
	case strings.HasPrefix(err.Error(), "lock: the name "):
		return statusUsage
	}
	return statusUnknown
}

// plain returns the text of an error for a user who does not know the library.
func plain(err error) string {
	var refused redis.Error
	var unknown *lock.UnknownError
	var unsent *lock.NotSentError
	var cause error
	if errors.As(err, &unknown) {
		cause = unknown.Err
	} else if errors.As(err, &unsent) {
		cause = unsent.Err
	}
	switch {
	case errors.Is(err, lock.ErrNotALock):
		return "the key exists and is not a lock: use another name"
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "CROSSSLOT"):
		return "Redis refused, because the server is a node of a Redis Cluster: write -redis redis-cluster://host:port"
	case cause != nil && !errors.As(cause, &refused):
		if text := cause.Error(); strings.Contains(text, "timeout") || errors.Is(err, context.DeadlineExceeded) || strings.Contains(text, "IOTimeout") {
			return "Redis did not answer in time: check that it runs at the address in -redis or WHEELLOCK_REDIS"
		}
		return fmt.Sprintf("Redis did not answer: %v: check that it runs at the address in -redis or WHEELLOCK_REDIS", cause)
	}
	text := err.Error()
	for _, from := range []string{"lock: Open: ", "lock: ", "cluster: Open: ", "cluster: ", "sentinel: "} {
		if rest, ok := strings.CutPrefix(text, from); ok {
			return rest
		}
	}
	return text
}
