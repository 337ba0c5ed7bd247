package redistest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Software is the name and the version of a server. It is zero if the server does not tell them.
type Software struct {
	Name    string // Redis, Valkey, Redict or KeyDB
	Version string // as the project of that name counts, such as 7.0.15
}

// String is "Redis 7.0.15", or "Redis" if nothing is known.
func (s Software) String() string {
	if s == (Software{}) {
		return "Redis"
	}
	return s.Name + " " + s.Version
}

// Program is the server's program: "redis-server 7.0.15", "valkey-server 8.0.1".
func (s Software) Program() string {
	name, version, _ := strings.Cut(s.String(), " ")
	return strings.TrimSpace(strings.ToLower(name) + "-server " + version)
}

// Software asks the server for its name and version.
func (s *Server) Software() (Software, error) {
	if as := pretendedVersion(); s.kind == Process && as != (Software{}) {
		return as, nil
	}
	m, err := s.Info("server")
	return SoftwareOf(m), err
}

// SoftwareOf reads the fields of INFO's section "server". Valkey and Redict give the version
// of Redis that they are compatible with as redis_version and their own beside it; KeyDB
// gives its own as redis_version, so only the program's name tells it from Redis.
func SoftwareOf(info map[string]string) Software {
	switch version := info["redis_version"]; {
	case info["valkey_version"] != "":
		return Software{Name: "Valkey", Version: info["valkey_version"]}
	case info["redict_version"] != "":
		return Software{Name: "Redict", Version: info["redict_version"]}
	case version == "":
		return Software{}
	case strings.Contains(path.Base(info["executable"]), "keydb"):
		return Software{Name: "KeyDB", Version: version}
	default:
		return Software{Name: "Redis", Version: version}
	}
}

var versionText = regexp.MustCompile(`^(?:(Redis|Valkey|Redict|KeyDB) s|S)erver v=(\d+\.\d+\S*)`)

// parseVersion reads what the option --version of a server's program prints. Valkey 7.2
// prints no name.
func parseVersion(text string) (Software, error) {
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return Software{}, fmt.Errorf("redistest: %.100q names no server and version", text)
	}
	if m[1] == "" {
		m[1] = "Valkey"
	}
	return Software{Name: m[1], Version: m[2]}, nil
}

// Installed is what Start starts, without starting it: the redis-server on PATH.
// It gives ErrNoServer if there is none.
func Installed(ctx context.Context) (Software, error) {
	s, err := queryVersion(ctx, "redis-server")
	if as := pretendedVersion(); err == nil && as != (Software{}) {
		return as, nil
	}
	return s, err
}

// queryVersion asks a server's program for its name and version.
func queryVersion(ctx context.Context, program string) (Software, error) {
	text, err := exec.CommandContext(ctx, program, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return Software{}, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	if err != nil {
		return Software{}, fmt.Errorf("redistest: %s --version: %w", program, err)
	}
	return parseVersion(string(text))
}

// Ability is something that only some of the servers can do on which the library works.
type Ability struct {
	what         string
	major, minor int // the first version of Redis that has it
}

// The abilities that tests ask for. Valkey and Redict began as Redis 7.2.4 and count on from there,
// and KeyDB has the version of the Redis that it follows, so one number is enough.
var (
	Users         = Ability{"users (ACL)", 6, 0}
	ChannelRights = Ability{"rights for channels", 6, 2}
	ErrorStats    = Ability{"counts of errors (INFO errorstats)", 6, 2}
	ReplicasRule  = Ability{"scripts that heed min-replicas-to-write", 6, 2}
	SlowLoading   = Ability{"settings that slow down loading", 6, 2}
	RandomFields  = Ability{"HRANDFIELD", 6, 2}
	ShardedPubSub = Ability{"sharded pub/sub", 7, 0}
	DebugSetting  = Ability{"a setting that allows DEBUG", 7, 0}
	CommandList   = Ability{"COMMAND LIST", 7, 0}
)

// Lacks returns nil if the server has all abilities, and otherwise an error that names the
// missing ones. A server that does not tell its version lacks nothing.
func (s Software) Lacks(abilities ...Ability) error {
	for _, a := range abilities {
		if s != (Software{}) && s.isOlderThan(a.major, a.minor) {
			return fmt.Errorf("%v has no %s, which came with Redis %d.%d", s, a.what, a.major, a.minor)
		}
	}
	return nil
}

// isOlderThan reports whether the version is lower than major.minor.
func (s Software) isOlderThan(major, minor int) bool {
	var a, b int
	_, _ = fmt.Sscanf(s.Version, "%d.%d", &a, &b)
	return a < major || a == major && b < minor
}

// Rights returns those words of ACL SETUSER that the server knows. A server returns an error for a
// right to a command that it does not have, and for rights to channels if it has none.
func (s Software) Rights(words ...string) (known []string) {
	for _, word := range words {
		isChannel := strings.HasPrefix(word, "&") || word == "allchannels" || word == "resetchannels"
		if isChannel && s.Lacks(ChannelRights) != nil || s.Lacks(commandOf(word)) != nil {
			continue
		}
		known = append(known, word)
	}
	return known
}

// commandOf is the command that a right is for, as an ability.
func commandOf(right string) Ability {
	for _, n := range newer {
		if slices.Contains(strings.Fields(n.commands), strings.ToUpper(strings.TrimLeft(right, "+-"))) {
			return Ability{right, n.major, n.minor}
		}
	}
	return Ability{what: right}
}

// DebugArgs are the Options.Args that allow the command DEBUG to the redis-server on
// PATH. Redis 7 forbids it by default; a server before that allows it and does not
// know the setting.
func DebugArgs() []string {
	if s, err := Installed(context.Background()); err == nil && s.Lacks(DebugSetting) != nil {
		return nil
	}
	return []string{"--enable-debug-command", "yes"}
}
