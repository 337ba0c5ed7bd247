package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wheellock/wheellock/integration/redistest"
)

// report is what -json writes.
type report struct {
	Environment environment `json:"environment"`
	Rows        []row       `json:"rows"`
}

// environment is where the rows were measured.
type environment struct {
	Go           string    `json:"go"`
	OS           string    `json:"os"`
	Arch         string    `json:"arch"`
	CPU          string    `json:"cpu"` // empty if the system does not tell
	CPUs         int       `json:"cpus"`
	GOMAXPROCS   int       `json:"gomaxprocs"`
	GOGC         string    `json:"gogc"`
	Redis        string    `json:"redis"` // what and where, without the password
	RedisKind    string    `json:"redis_kind"`
	RedisVersion string    `json:"redis_version"`
	LeaseMs      int64     `json:"lease_ms"`
	DurationMs   int64     `json:"duration_ms"`
	Started      time.Time `json:"started"`
	Interrupted  bool      `json:"interrupted"`
	Command      string    `json:"command"`         // without a password
	Notes        []string  `json:"notes,omitempty"` // what the reader is to know of the load
}

// row is one driver at one number of locks. Its numbers are n/a if the row did
// not come that far.
type row struct {
	Driver            string `json:"driver"`
	Locks             int    `json:"locks"`
	HoldSeconds       number `json:"hold_s"`
	AcquireSeconds    number `json:"acquire_s"`
	Renewals          number `json:"renewals"`
	RenewalsPerSecond number `json:"renewals_per_s"`
	Batch             number `json:"locks_per_batch"` // renewals of one round trip, on average
	ClientCPUSeconds  number `json:"client_cpu_s"`
	ClientCPU         number `json:"client_cpu_us_per_renewal"`
	RedisCPU          number `json:"redis_cpu_us_per_renewal"`
	RSS               number `json:"rss_bytes"`
	Heap              number `json:"heap_bytes"`
	Goroutines        number `json:"goroutines"`
	GCCycles          number `json:"gc_cycles"`
	LateP50           number `json:"late_p50_ms"`
	LateP99           number `json:"late_p99_ms"`
	LateMax           number `json:"late_max_ms"`
	Missed            number `json:"missed"`
	Lost              number `json:"lost"`
	Connections       number `json:"connections"` // dialled by the engine, acquisition included
	Scripts           number `json:"scripts"`     // calls of a script that the server had, during the hold
	ScriptMean        number `json:"script_us_mean"`
	ScriptP99         number `json:"script_us_p99"` // of a server of our own, from Redis 7 on
	ScriptMax         number `json:"script_us_max"` // likewise

	ServerCPU []cpuSample `json:"redis_cpu_samples,omitempty"` // after the hold; with -out, of the most locks

	Faults []string `json:"faults,omitempty"` // each a line; empty if all is well

	Interrupted bool `json:"interrupted,omitempty"`
	Released    int  `json:"released,omitempty"` // locks that were held to the end and given back
}

// sound says that the row was measured whole and no lock was in danger.
func (r row) sound() bool {
	return r.Missed.isZero() && r.Lost.isZero() && len(r.Faults) == 0
}

// String names the row.
func (r row) String() string { return fmt.Sprintf("%s, %d locks", r.Driver, r.Locks) }

// newEnvironment describes this process and the server.
func newEnvironment(srv *redistest.Server) environment {
	gogc := os.Getenv("GOGC")
	if gogc == "" {
		gogc = "100"
	}
	e := environment{
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpuModel(),
		CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), GOGC: gogc,
		Redis: srv.String(), RedisKind: string(srv.Kind()), Started: time.Now().UTC().Truncate(time.Second),
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

// checkWritable says whether a file can be written, and leaves everything as it
// is. It is asked before the run, so that an hour of measuring does not end in
// "no such directory".
func checkWritable(path string) error {
	_, err := os.Lstat(path)
	made := os.IsNotExist(err)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	err = f.Close()
	if made {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// writeJSON writes the report into a file.
func writeJSON(path string, r *report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("bench: writing the report: %w", err)
	}
	return nil
}
