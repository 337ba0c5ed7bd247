package main

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
	"github.com/wheellock/wheellock/integration/redistest"
)

// newEnvironment describes this process and the server.
func newEnvironment(t *run.Target) report.Environment {
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
	// Some hosted servers do not tell; the report can do without.
	if info, err := srv.Info("server"); err == nil {
		e.RedisVersion = info["redis_version"]
		if v := info["valkey_version"]; v != "" {
			e.RedisVersion = "valkey " + v
		}
	}
	if t.Cluster() {
		e.RedisKind = "cluster"
		if e.RedisVersion != "" {
			e.Redis = strings.Replace(e.Redis, "Redis Cluster", "Redis Cluster "+e.RedisVersion, 1)
		}
		return e
	}
	if srv.Kind() == redistest.External && e.RedisVersion != "" {
		e.Redis = strings.Replace(e.Redis, "external Redis", "external Redis "+e.RedisVersion, 1)
	}
	return e
}

// cpuModel is the processor's name where Linux tells it.
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
