package run

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

// readInfo returns the fields of a section of INFO. It returns none for a server
// without that section, such as the embedded one.
func readInfo(conn redis.Conn, section string) map[string]string {
	text, err := redis.String(conn.Do("INFO", section))
	if err != nil {
		return nil
	}
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[key] = value
		}
	}
	return m
}

// parseNumber is a decimal number from the server or the system; n/a if the text is
// not a number.
func parseNumber(text string) report.Number {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return report.Number{}
	}
	return report.NumberOf(v)
}

// readCPU is the CPU that the server has used so far, in seconds; n/a where INFO
// does not say.
func readCPU(conn redis.Conn) report.Number {
	m := readInfo(conn, "cpu")
	return parseNumber(m["used_cpu_user"]).Plus(parseNumber(m["used_cpu_sys"]))
}

// usage is what a target has done up to a moment.
type usage struct {
	cpus       []report.Number // s, of each master
	scripts    report.Number   // calls of EVALSHA
	scriptTime report.Number   // us in them
	p99, most  report.Number   // us in one of them, since observe
}

// cpu returns the CPU time of all masters.
func (u usage) cpu() report.Number {
	sum := report.NumberOf(0)
	for _, c := range u.cpus {
		sum = sum.Plus(c)
	}
	return sum
}

// resetScriptStats makes a server that bench started count its scripts from zero. Redis
// before 7 refuses the first command.
func resetScriptStats(t *holders.Target) {
	all, err := dialMasters(t)
	if err != nil {
		return // the row will say so
	}
	defer all.close()
	for _, conn := range all {
		_, _ = conn.Do("CONFIG", "SET", "latency-tracking-info-percentiles", "99 100")
		_, _ = conn.Do("CONFIG", "RESETSTAT")
	}
}

// readUsage reads what the target has done until now. own says that bench started the server. Otherwise the
// percentiles are left out, because they are of all its time and cannot be
// subtracted.
func readUsage(t *holders.Target, own bool) usage {
	all, err := dialMasters(t)
	if err != nil {
		return usage{cpus: make([]report.Number, len(t.Servers()))}
	}
	defer all.close()
	u := usage{scripts: report.NumberOf(0), scriptTime: report.NumberOf(0)}
	for _, conn := range all {
		u.cpus = append(u.cpus, readCPU(conn))
		calls := map[string]string{}
		if stats := readInfo(conn, "commandstats"); len(stats) > 0 {
			// A command that was not called has no line there.
			calls = parsePairs(cmp.Or(stats["cmdstat_evalsha"], "calls=0,usec=0"))
		}
		u.scripts, u.scriptTime = u.scripts.Plus(parseNumber(calls["calls"])), u.scriptTime.Plus(parseNumber(calls["usec"]))
		if own {
			times := parsePairs(readInfo(conn, "latencystats")["latency_percentiles_usec_evalsha"])
			u.p99, u.most = parseNumber(times["p99"]), parseNumber(times["p100"])
		}
	}
	return u
}

// parsePairs splits "calls=3,usec=1459".
func parsePairs(text string) map[string]string {
	m := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			m[key] = value
		}
	}
	return m
}
