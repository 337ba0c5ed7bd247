package redistest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// EnvPretend names the environment variable that makes the servers of Start do no
// more than an older Redis would: "5.0" or "6.2". Tests then skip what that version
// cannot do and try the library without it. Newer commands and settings are refused,
// and so is --replicaof with host and port in one argument. Newer options of commands
// still work, for example PEXPIRE's GT.
const EnvPretend = "WHEELLOCK_PRETEND_REDIS"

// pretendedVersion is the version that is pretended; the zero value if none is.
func pretendedVersion() Software {
	if version := os.Getenv(EnvPretend); version != "" {
		return Software{Name: "Redis", Version: version}
	}
	return Software{}
}

// newer are the commands and settings that came with a version.
var newer = []struct {
	major, minor int
	commands     string
	settings     string
}{
	{6, 0, "ACL HELLO", ""},
	{
		6, 2, "BLMOVE COPY FAILOVER GEOSEARCH GEOSEARCHSTORE GETDEL GETEX HRANDFIELD LMOVE RESET SMISMEMBER XAUTOCLAIM " +
			"ZDIFF ZDIFFSTORE ZINTER ZMSCORE ZRANDMEMBER ZRANGESTORE ZUNION",
		"--acl-pubsub-default --key-load-delay --loading-process-events-interval-bytes",
	},
	{
		7, 0, "BLMPOP BZMPOP EVALSHA_RO EVAL_RO EXPIRETIME FCALL FCALL_RO FUNCTION LCS LMPOP PEXPIRETIME SINTERCARD SORT_RO " +
			"SPUBLISH SSUBSCRIBE SUNSUBSCRIBE ZINTERCARD ZMPOP",
		"--enable-debug-command",
	},
}

// pretendArgs returns the arguments that make the program like the older Redis. If the caller's
// arguments are too new, it returns the error with which the older Redis would end.
func pretendArgs(ctx context.Context, program string, args []string) ([]string, error) {
	as := pretendedVersion()
	if as == (Software{}) {
		return nil, nil
	}
	is, err := queryVersion(ctx, program)
	if err != nil {
		return nil, err
	}
	var out []string
	if i := slices.Index(args, "--replicaof") + 1; i > 0 && i < len(args) && as.isOlderThan(7, 0) && strings.Contains(args[i], " ") {
		return nil, fmt.Errorf("redistest: %v takes no two values in one argument, as %q (%s is set)", as, args[i], EnvPretend)
	}
	for _, n := range newer {
		if !as.isOlderThan(n.major, n.minor) || is.isOlderThan(n.major, n.minor) {
			continue
		}
		for _, setting := range strings.Fields(n.settings) {
			for _, arg := range args {
				if arg == setting {
					return nil, fmt.Errorf("redistest: %v knows no %s (%s is set)", as, setting, EnvPretend)
				}
			}
		}
		for _, command := range strings.Fields(n.commands) {
			out = append(out, "--rename-command", command, "")
		}
	}
	// Redis 7 forbids these by default, and older versions do not.
	if as.isOlderThan(7, 0) && is.Lacks(ChannelRights) == nil {
		out = append(out, "--acl-pubsub-default", "allchannels")
	}
	if as.isOlderThan(7, 0) && is.Lacks(DebugSetting) == nil {
		out = append(out, "--enable-debug-command", "yes")
	}
	return out, nil
}
