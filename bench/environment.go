package main

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/redistest"
)

// newEnvironment describes this process and the server.
func newEnvironment(t *holders.Target) report.Environment {
	srv := t.Servers()[0]
	gogc := os.Getenv("GOGC")
	if gogc == "" {
		gogc = "100"
	}
	e := report.Environment{
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpuModel(),
		CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), GOGC: gogc,
		Redis: t.String(), RedisKind: string(srv.Kind()), Started: time.Now().UTC().Truncate(time.Second),
	}
	if srv.Kind() == redistest.Mini {
		e.RedisKind = "embedded"
		e.Redis = "embedded miniredis, no server: see -redis"
		return e
	}
	if t.IsCluster() {
		e.RedisKind = "cluster"
	}
	// Some hosted servers do not tell their version. The report works without it.
	if software, err := srv.Software(); err == nil && software != (redistest.Software{}) {
		e.RedisVersion = software.Version
		if software.Name != "Redis" {
			e.RedisVersion = software.String()
		}
		e.Redis = named(e.Redis, software)
	}
	return e
}

// named puts the software and its version into the text of a server or Cluster
// that bench did not start.
func named(text string, s redistest.Software) string {
	return strings.NewReplacer("external Redis", "external "+s.String(), "Redis Cluster", s.Name+" Cluster "+s.Version).Replace(text)
}

// cpuModel returns the name of the processor, or "" if the system does not tell it.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
