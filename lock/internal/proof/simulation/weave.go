package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	module     = "github.com/wheellock/wheellock"
	pointsPath = module + "/integration/points"
)

// woven are the trees of the product that Weave rewrites. apart are trees within them that are not part of
// a client, and stay as they are.
var (
	woven = []string{"lock", "renewal", "wheel"}
	apart = []string{"lock/cmd", "lock/locktest", "lock/internal/proof/simulation", "lock/internal/proof/twin"}
)

// locking are the types of package sync that are replaced, so that goroutines stop at them. When a
// goroutine waits for one of the other types, synctest knows that it is blocked.
var locking = []string{"Mutex", "Once"}

// drawing are the identifiers whose results are random, by package: a Pool depends on the processor and
// the garbage collector, a hash on its seed, and a select chooses among its ready cases.
var drawing = map[string][]string{"sync": {"Pool"}, "hash/maphash": {"String"}, "reflect": {"Select"}}

// remaining is, for each of these packages, a type that is not replaced.
var remaining = map[string]string{"sync": "Locker", "hash/maphash": "Seed", "reflect": "Kind"}

// Weave writes an overlay for go build -overlay into dir, and returns the name of its
// file. root is the directory of the module. If base is not empty, it is another overlay, and
// its replacements are woven. So a planted bug can be simulated.
func Weave(root, dir, base string) (string, error) {
	before, err := replacements(base)
	if err != nil {
		return "", err
	}
	w := weaver{root: root, dir: dir, base: before, replace: maps.Clone(before)}
	for _, tree := range append(slices.Clone(woven), linkFile) {
		if _, err := os.Stat(filepath.Join(root, tree)); tree == linkFile && err != nil {
			continue // a product without small worlds
		}
		if err := filepath.WalkDir(filepath.Join(root, tree), w.visit); err != nil {
			return "", err
		}
	}
	if w.mutexes == 0 {
		return "", errors.New("simulation: no mutex was replaced")
	}
	if err := w.write(filepath.Join(root, "integration", "points", "woven.go"),
		[]byte("package points\n\nconst Woven = true\n")); err != nil {
		return "", err
	}
	text, err := json.Marshal(overlaid{w.replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// overlaid is the file of an overlay, as the go command reads it.
type overlaid struct {
	Replace map[string]string // by the name of a file, the name of its replacement
}

// replacements returns the replacements of an overlay, or none if overlay is empty.
func replacements(overlay string) (map[string]string, error) {
	if overlay == "" {
		return map[string]string{}, nil
	}
	text, err := os.ReadFile(overlay)
	if err != nil {
		return nil, err
	}
	var o overlaid
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("%s: %w", overlay, err)
	}
	return o.Replace, nil
}

// linkFile has the code that replaces a client's connections. It runs on the product's goroutines.
const linkFile = "lock/internal/proof/simulation/link_test.go"

// unlocked is the tree whose mutexes are not replaced, so no goroutine stops at them. Package wheel has an
// exploration of its own.
const unlocked = "wheel"

// always are the edits that are made in a file whenever it is woven.
var always = map[string][]struct{ before, after string }{
	// The id of a client, because the order of fields in Redis depends on it.
	"lock/internal/engine/owner/id.go": {{"crand.Read(b[:]) // never fails", "_ = crand.Reader; points.ID(b[:])"}},
	// The id of a permit, because the order of a client's holds depends on it.
	"lock/internal/engine/hold/kind.go": {{"rand.Read(b[:]) // never fails", "_ = rand.Reader; points.ID(b[:])"}},
	// When the garbage collector finds forgotten Helds.
	"lock/internal/engine/hold/held.go": {{"runtime.AddCleanup(", "_ = runtime.Version\n\tpoints.OnForget("}},
	// Worlds have few requests at a time, so callers send and receive by themselves whenever they can.
	"lock/internal/transport/servers/server.go": {{"LeadAfter: leadAfter,", "LeadAfter: 1,"}},
	// The simulated servers have a Topology, but do not fail over by themselves.
	"lock/redlock.go": {{"if m.c.topology != nil {", "if m.c.topology != nil && !points.Woven {"}},
	// The random numbers of a Keeper, and the order of its names and channels.
	"lock/keeper/keeper.go":                        {{"newCore(cfg, rand.Float64)", "newCore(cfg, func() float64 { _ = rand.Float64; return points.Float64() })"}, {"slices.Collect(maps.Keys(", "slices.Sorted(maps.Keys("}},
	"lock/keeper/core.go":                          {{"range c.entries {", "range points.Sorted(c.entries) {"}},
	"lock/internal/transport/pubsub/follower.go":   {{"range f.names {", "range points.Sorted(f.names) {"}, {"range names {", "range points.Sorted(names) {"}},
	"lock/internal/transport/pubsub/subscriber.go": {{"range s.topics {\n\t\ts.pending", "range points.Sorted(s.topics) {\n\t\ts.pending"}, {"range s.topics {\n\t\tif", "range points.Sorted(s.topics) {\n\t\tif"}, {"range s.redirected {", "range points.Sorted(s.redirected) {"}, {"range s.refused {", "range points.Sorted(s.refused) {"}},
	"lock/internal/transport/pubsub/modes.go":      {{"range s.topics {", "range points.Sorted(s.topics) {"}},
	"lock/internal/transport/pubsub/read.go":       {{"range s.topics {", "range points.Sorted(s.topics) {"}},
	// Fewer sharers, because every sharer listens to all places.
	"lock/keeper/share.go": {{"MaxSharers = 64", "MaxSharers = 4"}},
}

type weaver struct {
	// immutable
	root, dir string
	base      map[string]string // the replacements of the overlay base

	mutexes int               // how many were replaced
	written int               // how many files were written
	replace map[string]string // by the name of a file, the file with its woven text
}

// visit weaves a file of the product.
func (w *weaver) visit(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(w.root, path)
	if err != nil {
		return err
	}
	if entry.IsDir() {
		_, noModule := os.Stat(filepath.Join(path, "go.mod"))
		if slices.Contains(apart, filepath.ToSlash(rel)) || noModule == nil || entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		return nil
	}
	if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") && filepath.ToSlash(rel) != linkFile {
		return nil
	}
	from := path
	if other, ok := w.base[path]; ok {
		from = other
	}
	before, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	text := before
	for _, e := range always[filepath.ToSlash(rel)] {
		if bytes.Count(text, []byte(e.before)) != 1 {
			return fmt.Errorf("%s has the text %q not once: correct what is always edited", rel, e.before)
		}
		text = bytes.ReplaceAll(text, []byte(e.before), []byte(e.after))
	}
	tree, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	text, mutexes, err := Rewrite(path, text, tree != unlocked && !strings.HasSuffix(path, "_test.go"))
	if err != nil {
		return fmt.Errorf("%s: %w", rel, err)
	}
	w.mutexes += mutexes
	if bytes.Equal(text, before) {
		return nil
	}
	return w.write(path, text)
}

// write writes text to a file, which the go command will read in place of path.
func (w *weaver) write(path string, text []byte) error {
	w.written++
	name := filepath.Join(w.dir, strconv.Itoa(w.written)+"_"+filepath.Base(path))
	w.replace[path] = name
	return os.WriteFile(name, text, 0o644)
}
