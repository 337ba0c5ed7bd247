package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bug is a small edit of the library that breaks a promise.
type bug struct {
	name   string // for -only
	breaks string
	file   string // from the root of the module
	before string // text that is in the file once
	after  string // text that takes its place
	also   []edit // further edits
	tests  []tests
	says   string // a text that the failing tests print; empty: any text
	long   bool   // the tests run without -short
}

// edit is a further edit of a bug.
type edit struct{ file, before, after string }

// edits returns all edits of b.
func (b bug) edits() []edit {
	return append([]edit{{b.file, b.before, b.after}}, b.also...)
}

// tests are the tests of one package that must find a bug.
type tests struct {
	pkg string // "./lock"
	run string // for go test -run; empty: all
	// limit is how long they may take; 0 is maxTime. A bug may make tests hang.
	limit time.Duration
	// worlds is the value of WHEELLOCK_SIMULATE for the tests of the simulation. Each of two workers runs
	// this many small worlds, and a tenth or a twentieth as many of each other kind. If a bug is found, the
	// run ends.
	worlds int
}

// simulation runs the product itself under a scheduler, and never with -short. Each of the others runs one
// kind of its worlds.
var (
	simulation = tests{pkg: "./lock/internal/proof/simulation", run: "^TestThePromisesHoldInEveryOrder$", worlds: 1000, limit: maxSimulationTime}
	small      = tests{pkg: simulation.pkg, run: simulation.run + "/^small$", worlds: 4000, limit: maxSimulationTime}
	ofKeepers  = tests{pkg: simulation.pkg, run: simulation.run + "/^small,_of_Keepers$", worlds: 10_000, limit: maxSimulationTime}
	ofCluster  = tests{pkg: simulation.pkg, run: simulation.run + "/^large,_of_a_Cluster$", worlds: 20_000, limit: maxSimulationTime}
	ofOneName  = tests{pkg: simulation.pkg, run: simulation.run + "/^large,_of_one_name$", worlds: 20_000, limit: maxSimulationTime}
)

// These bound the tests of one package. The simulation has its number of worlds, so that a bug is
// found or survives on every machine alike.
const (
	maxTime           = 2 * time.Minute
	maxSimulationTime = time.Hour
)

// editTexts returns the texts of b's files with the bug in them, by the names of the files.
func (b bug) editTexts(root string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, e := range b.edits() {
		text := texts[e.file]
		if text == nil {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, e.file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(e.before)); n != 1 {
			return nil, fmt.Errorf("the text before is %d times in %s, not once: plant the same fault where the code went", n, e.file)
		}
		texts[e.file] = bytes.Replace(text, []byte(e.before), []byte(e.after), 1)
	}
	return texts, nil
}

// writeOverlay writes into dir an overlay with which the go command builds b. It returns the file for
// the flag -overlay.
func (b bug) writeOverlay(root, dir string) (string, error) {
	texts, err := b.editTexts(root)
	if err != nil {
		return "", err
	}
	by := map[string]string{}
	for name, text := range texts {
		file := filepath.Join(dir, b.name+strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return "", err
		}
		by[filepath.Join(root, name)] = file
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": by})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, b.name+".json")
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

var failed = regexp.MustCompile(`(?m)^(?:--- FAIL: (\S+)|panic: test timed out.*)`)

// plant runs the tests that must find b. It returns the names of the failed tests of the first
// package with a failure, or an empty string if all tests pass.
func (b bug) plant(ctx context.Context, root, dir string, verbose io.Writer) (foundBy string, err error) {
	overlay, err := b.writeOverlay(root, dir)
	if err != nil {
		return "", err
	}
	for _, t := range b.tests {
		args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", cmp.Or(t.limit, maxTime).String(), "-run", t.run}
		if t.pkg != simulation.pkg { // its tests build the product themselves, and need no second one with the bug
			args = append(args, "-overlay", overlay)
		}
		if !b.long && t.pkg != simulation.pkg {
			args = append(args, "-short")
		}
		dir, pkg := root, t.pkg
		if _, err := os.Stat(filepath.Join(root, t.pkg, "go.mod")); err == nil { // a module of its own
			dir, pkg = filepath.Join(root, t.pkg), "."
		}
		args = append(args, pkg)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "WHEELLOCK_OVERLAY="+overlay, // tests that build the product themselves
			"WHEELLOCK_STATES="+cmp.Or(os.Getenv("WHEELLOCK_STATES"), "some"))
		if t.worlds > 0 {
			cmd.Env = append(cmd.Env, "WHEELLOCK_SIMULATE="+strconv.Itoa(t.worlds))
		}
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		_, _ = verbose.Write(out.Bytes())
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err == nil:
			continue
		case !errors.As(err, &exit):
			return "", err
		case bytes.Contains(out.Bytes(), []byte("[build failed]")), bytes.Contains(out.Bytes(), []byte("[setup failed]")):
			return "", fmt.Errorf("the edited file does not compile:\n%s", out.Bytes())
		}
		if !bytes.Contains(out.Bytes(), []byte(b.says)) {
			return "", fmt.Errorf("tests failed and did not say %q:\n%s", b.says, out.Bytes())
		}
		var names []string
		for _, m := range failed.FindAllSubmatch(out.Bytes(), -1) {
			if name := string(m[1]); name != "" {
				names = append(names, name)
			} else {
				names = append(names, "a test that hangs")
			}
		}
		if len(names) == 0 {
			names = []string{"a crash of " + t.pkg}
		}
		return strings.Join(names, ", ") + describeFind(out.String()), nil
	}
	return "", nil
}

var (
	worlds = regexp.MustCompile(`after (\d+) worlds`)
	broken = regexp.MustCompile(`(?m)(?:BROKEN: |^\s*panic: )(.*)$`)
)

// describeFind returns the number of worlds before a find of the simulation, and the promise that was broken.
func describeFind(out string) (said string) {
	if n := worlds.FindStringSubmatch(out); n != nil {
		said = " after " + n[1] + " worlds"
	}
	if what := broken.FindStringSubmatch(out); what != nil && said != "" {
		said += ": " + what[1]
	}
	return said
}

// part selects every n-th bug from the k-th on.
type part struct{ k, n int }

func (p *part) String() string { return fmt.Sprintf("%d/%d", p.k, p.n) }

func (p *part) Set(text string) error {
	if _, err := fmt.Sscanf(text, "%d/%d", &p.k, &p.n); err != nil || p.k < 0 || p.k >= p.n {
		return errors.New("give K/N with 0 <= K < N")
	}
	return nil
}

// selectBugs returns the bugs of a list that are in part p and match only.
func selectBugs(list []bug, only *regexp.Regexp, p part) (out []bug) {
	for i, b := range list {
		if i%p.n == p.k && only.MatchString(b.name) {
			out = append(out, b)
		}
	}
	return out
}

// moduleRoot returns the directory of the module of the working directory.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

func run(ctx context.Context) error {
	p := part{0, 1}
	only := flag.String("only", "", "plant the bugs whose names match the `regex`")
	list := flag.Bool("list", false, "print the bugs and plant none")
	verbose := flag.Bool("v", false, "print the output of the tests")
	simulate := flag.Int("simulate", 0, "run the simulation in place of the tests, with `so many` small worlds and others")
	draw := flag.Int("generate", 0, "plant `N` bugs that are drawn, in place of those of the list")
	seed := flag.Uint64("seed", 1, "draw them with this `seed`")
	in := flag.String("in", "lock/internal/engine/hold,lock/internal/engine/locktable,lock/internal/engine/quorum,lock/internal/engine/waitqueue,lock/internal/engine/orphans,lock/internal/transport/network", "draw them in these `packages`")
	flag.Var(&p, "part", "plant every Nth bug from the Kth on, `K/N`")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "planted")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	output := io.Discard
	if *verbose {
		output = os.Stdout
	}
	all := bugs
	if *draw > 0 {
		if all, err = drawBugs(root, strings.Split(*in, ","), *draw, *seed); err != nil {
			return err
		}
	}
	planted, found, bad, survive := selectBugs(all, match, p), 0, 0, 0
	for _, b := range planted {
		if *simulate > 0 {
			all := simulation
			all.worlds = *simulate
			b.tests, b.says = []tests{all}, ""
		}
		if *list {
			fmt.Printf("%-40s %s: %s\n", b.name, b.file, b.breaks)
			continue
		}
		began := time.Now()
		foundBy, err := b.plant(ctx, root, dir, output)
		took := time.Since(began).Round(time.Second)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && *draw > 0:
			fmt.Printf("SKIPPED   %s: it is no bug: %.100v\n", b.name, err)
		case err != nil:
			bad++
			fmt.Printf("ERROR     %s: %v\n", b.name, err)
		case foundBy == "":
			survive++
			fmt.Printf("SURVIVES  %s (%v): %s\n", b.name, took, b.breaks)
		default:
			found++
			fmt.Printf("found     %s (%v) by %s\n", b.name, took, foundBy)
		}
	}
	if !*list {
		fmt.Printf("%d of %d planted bugs are found\n", found, len(planted))
	}
	if *draw > 0 {
		survive = 0 // many drawn bugs change no visible behaviour
	}
	if n := bad + survive; n > 0 {
		return fmt.Errorf("%d of %d planted bugs are not found", n, len(planted))
	}
	return nil
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}
