package run

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/integration/redistest"
)

// info is what INFO says in a section, by key; empty where it says nothing, as
// the embedded server does.
func info(conn redis.Conn, section string) map[string]string {
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

// reading is a decimal number that somebody else has written; n/a if it is
// none.
func reading(text string) report.Number {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return report.Number{}
	}
	return report.NumberOf(v)
}

// cpuOf is the CPU that the server has used so far, in seconds; n/a where INFO
// does not say.
func cpuOf(conn redis.Conn) report.Number {
	m := info(conn, "cpu")
	return reading(m["used_cpu_user"]).Plus(reading(m["used_cpu_sys"]))
}

// use is what a server has done up to a moment.
type use struct {
	cpu        report.Number // s
	scripts    report.Number // calls of EVALSHA
	scriptTime report.Number // us in them
	p99, most  report.Number // us in one of them, since observe
}

// observe makes a server of our own count scripts anew. Those before Redis 7
// refuse the first.
func observe(srv *redistest.Server) {
	conn, err := srv.Dial()
	if err != nil {
		return // the row will say so
	}
	defer conn.Close()
	_, _ = conn.Do("CONFIG", "SET", "latency-tracking-info-percentiles", "99 100")
	_, _ = conn.Do("CONFIG", "RESETSTAT")
}

// useOf reads it. Of a server that is not our own the percentiles are left out:
// they are of all its time, and cannot be subtracted.
func useOf(srv *redistest.Server, own bool) use {
	conn, err := srv.Dial()
	if err != nil {
		return use{}
	}
	defer conn.Close()
	u := use{cpu: cpuOf(conn)}
	if stats := info(conn, "commandstats"); len(stats) > 0 {
		// A command that was not called has no line there.
		calls := keyed(cmp.Or(stats["cmdstat_evalsha"], "calls=0,usec=0"))
		u.scripts, u.scriptTime = reading(calls["calls"]), reading(calls["usec"])
	}
	if own {
		times := keyed(info(conn, "latencystats")["latency_percentiles_usec_evalsha"])
		u.p99, u.most = reading(times["p99"]), reading(times["p100"])
	}
	return u
}

// keyed splits "calls=3,usec=1459".
func keyed(text string) map[string]string {
	m := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			m[key] = value
		}
	}
	return m
}
