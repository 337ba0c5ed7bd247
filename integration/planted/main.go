package main

import (
	"bytes"
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
	"slices"
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
	tests  []tests
	says   string // what they say then; empty: anything
	long   bool   // the tests run without -short
}

// bugs are all that are planted.
var bugs = slices.Concat(thought, drawn)

// tests are those of a package that must find a bug.
type tests struct {
	pkg string // "./lock"
	run string // for go test -run; empty: all
}

// simulation has the product itself run under a scheduler, and never with -short.
var simulation = tests{"./lock/internal/simulation", "^TestThePromisesHoldInEveryOrder$"}

// mostTime bounds the tests of one package: a bug may make them hang.
const mostTime = 2 * time.Minute

// edited returns the text of b's file with the bug in it.
func (b bug) edited(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, b.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(b.before)); n != 1 {
		return nil, fmt.Errorf("the text before is %d times in %s, not once: plant the same fault where the code went", n, b.file)
	}
	return bytes.Replace(text, []byte(b.before), []byte(b.after), 1), nil
}

// overlay writes into dir what makes the go command build b, and returns the file for
// its flag -overlay.
func (b bug) overlay(root, dir string) (string, error) {
	text, err := b.edited(root)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, b.name+filepath.Ext(b.file))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, b.file): file}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, b.name+".json")
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

var failed = regexp.MustCompile(`(?m)^(?:--- FAIL: (\S+)|panic: test timed out.*)`)

// plant runs the tests that must find b, and returns those that failed first. It
// returns an empty string if all pass.
func (b bug) plant(ctx context.Context, root, dir string, verbose io.Writer) (foundBy string, err error) {
	overlay, err := b.overlay(root, dir)
	if err != nil {
		return "", err
	}
	for _, t := range b.tests {
		args := []string{"test", "-overlay", overlay, "-count=1", "-vet=off", "-timeout", mostTime.String(), "-run", t.run}
		if !b.long && t.pkg != simulation.pkg {
			args = append(args, "-short")
		}
		args = append(args, t.pkg)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "WHEELLOCK_OVERLAY="+overlay) // tests that build the product themselves
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		cmd.Dir = root
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
		return strings.Join(names, ", "), nil
	}
	return "", nil
}

// part is every n-th bug from the k-th on.
type part struct{ k, n int }

func (p *part) String() string { return fmt.Sprintf("%d/%d", p.k, p.n) }

func (p *part) Set(text string) error {
	if _, err := fmt.Sscanf(text, "%d/%d", &p.k, &p.n); err != nil || p.k < 0 || p.k >= p.n {
		return errors.New("give K/N with 0 <= K < N")
	}
	return nil
}

// chosen are the bugs of a list that are to be planted.
func chosen(list []bug, only *regexp.Regexp, p part) (out []bug) {
	for i, b := range list {
		if i%p.n == p.k && only.MatchString(b.name) {
			out = append(out, b)
		}
	}
	return out
}

// moduleRoot is the directory of the module that we are in.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

func run(ctx context.Context) error {
	p := part{0, 1}
	only := flag.String("only", "", "plant the bugs whose names match the `regex`")
	list := flag.Bool("list", false, "print the bugs and plant none")
	verbose := flag.Bool("v", false, "print the output of the tests")
	simulate := flag.Duration("simulate", 0, "run the simulation in place of the tests, each of its parts for `so long`")
	draw := flag.Int("generate", 0, "plant `N` bugs that are drawn, in place of those of the list")
	seed := flag.Uint64("seed", 1, "draw them with this `seed`")
	in := flag.String("in", "lock/internal/hold,lock/internal/locktable,lock/internal/several,lock/internal/waitqueue,lock/internal/orphans,lock/internal/sender", "draw them in these `packages`")
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
		if all, err = generated(root, strings.Split(*in, ","), *draw, *seed); err != nil {
			return err
		}
	}
	planted, bad := chosen(all, match, p), 0
	for _, b := range planted {
		if *simulate > 0 {
			if err := os.Setenv("WHEELLOCK_SIMULATE", simulate.String()); err != nil {
				return err
			}
			b.tests, b.says = []tests{simulation}, ""
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
			bad++
			fmt.Printf("SURVIVES  %s (%v): %s\n", b.name, took, b.breaks)
		default:
			fmt.Printf("found     %s (%v) by %s\n", b.name, took, foundBy)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d planted bugs are not found", bad, len(planted))
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
