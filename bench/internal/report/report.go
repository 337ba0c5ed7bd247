package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Report is what -json writes.
type Report struct {
	Environment Environment `json:"environment"`
	Max         []Max       `json:"max,omitempty"` // of -max; the rows are its tries then
	Rows        []Row       `json:"rows"`
}

// Environment is where the rows were measured. Whoever measured them fills it in.
type Environment struct {
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
	Load         Load      `json:"load"`
	Interrupted  bool      `json:"interrupted"`
	Command      string    `json:"command"`         // without a password
	Notes        []string  `json:"notes,omitempty"` // what the reader should know about the load
}

// Verdict is the sentence that answers what the run was made for.
func (r *Report) Verdict() string {
	if len(r.Max) == 0 {
		return Answer(r.Rows)
	}
	var found []string
	for _, m := range r.Max {
		found = append(found, m.String())
	}
	return "On this machine " + strings.Join(found, ". Here ") + "."
}

// CheckWritable says whether a file can be written, and leaves everything as it
// is. It is asked before the run, so that an hour of measuring does not end in
// "no such directory". The error is the system's own.
func CheckWritable(path string) error {
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

// WriteJSON writes the report into a file.
func WriteJSON(path string, r *Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("bench: writing the report: %w", err)
	}
	return nil
}
