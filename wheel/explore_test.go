package wheel_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runExploration writes a copy of the package, changed by edits, in which every operation on shared memory is a point where
// its goroutine can be held up, and runs the exploration in testdata/explore on it.
func runExploration(t *testing.T, run string, edits ...string) (string, error) {
	if testing.Short() {
		t.Skip("it takes long, and neither the race detector nor another Go changes what there is to be found")
	}
	dir, faulty := t.TempDir(), len(edits) > 0
	edits = append([]string{
		`"sync"`, `"explored/sync"`,
		`"sync/atomic"`, `"explored/atomic"`,
		"const shardsPerWheel = 16", "const shardsPerWheel = 2",
		"return int64(time.Since(w.start))", "return sched.Now() - w.start.UnixNano()",
		"	select {\n	case w.wake <-", "	sched.Point(&w.wakeObject, \"signal\")\n	sched.See(uint64(len(w.wake)))\n	defer func() { sched.Set(&w.wakeObject, uint64(len(w.wake))) }()\n	select {\n	case w.wake <-",
		"	select {\n	case <-w.wake: // the signal came late", "	sched.Point(&w.wakeObject, \"drain\")\n	sched.See(uint64(len(w.wake)))\n	defer func() { sched.Set(&w.wakeObject, uint64(len(w.wake))) }()\n	select {\n	case <-w.wake: // the signal came late",
		// Measurements decide nothing.
		"		d.noteLateness(max(late, 0))\n", "",
		"	d.flush()\n	s.mu.Lock()", "	s.mu.Lock()",
		"	driver *driver //", "	wakeObject sched.Object\n	driver *driver //",
	}, edits...)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var names, texts []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		names, texts = append(names, "wheel/"+file), append(texts, string(text))
	}
	for i := 0; i < len(edits); i += 2 {
		found := false
		for k, text := range texts {
			texts[k] = strings.ReplaceAll(text, edits[i], edits[i+1])
			found = found || texts[k] != text
		}
		require.True(t, found, "the package has changed: %s", edits[i])
	}
	for k, text := range texts {
		if strings.Contains(text, "sched.") {
			texts[k] = strings.Replace(text, "import (", "import (\n\t\"explored/sched\"", 1)
		}
		if name := names[k]; name == "wheel/wheel.go" {
			texts[k] += "\nfunc duration(d int64) time.Duration { return time.Duration(d) }\n"
		}
	}
	for _, pattern := range []string{"sched/sched.go", "sync/sync.go", "atomic/atomic.go", "wheel/explore_test.go", "wheel/every_test.go", "wheel/history_test.go"} {
		text, err := os.ReadFile("testdata/explore/" + pattern)
		require.NoError(t, err)
		names, texts = append(names, pattern), append(texts, string(text))
	}
	names, texts = append(names, "go.mod"), append(texts, "module explored\n\ngo 1.25\n")
	for k, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(texts[k]), 0o644))
	}
	cmd := exec.Command("go", "test", "-v", "-vet=off", "-count=1", "-timeout=5m", "-run="+run, "./wheel")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off", "GOPROXY=off")
	if faulty && os.Getenv("WHEELLOCK_STATES") == "" {
		cmd.Env = append(cmd.Env, "WHEELLOCK_STATES=some") // a fault may show in any of them
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAllOrdersOfADriverAndTwoCallers explores pairs of calls beside the driver: a quarter of them, or all with
// WHEELLOCK_STATES=some. Most are explored in all orders. In the larger ones a goroutine that could go on is held up at most
// once or twice, and once more with WHEELLOCK_STATES=all. No timer may fire early, be passed over or be forgotten while the driver
// sleeps, and each arming has to end exactly once.
func TestAllOrdersOfADriverAndTwoCallers(t *testing.T) {
	t.Parallel()
	out, err := runExploration(t, "Explore")
	require.NoError(t, err, "%s", out)
	t.Log(out)
	counts := map[string]int{"\nstates: ": 440_000, "\nstates of Every: ": 92_000}
	switch os.Getenv("WHEELLOCK_STATES") {
	case "some":
		counts = map[string]int{"\nstates: ": 1_500_000, "\nstates of Every: ": 270_000}
	case "all":
		counts = map[string]int{"\nstates: ": 1_900_000, "\nstates of Every: ": 700_000}
	}
	for what, least := range counts {
		_, count, found := strings.Cut(out, what)
		require.True(t, found, out)
		states, err := strconv.Atoi(strings.Fields(count)[0])
		require.NoError(t, err)
		require.Greater(t, states, least, "fewer than there were: what was explored before is not any more")
	}
}

// TestTheOrdersShowWhatIsWrong builds a fault in, which was there once or is easily made, and requires that the exploration
// finds it. It always builds in one fault, more with WHEELLOCK_STATES, and the slow ones of ten seconds with WHEELLOCK_FAULTS=all.
func TestTheOrdersShowWhatIsWrong(t *testing.T) {
	const always = "no second look before the sleep"
	long := []string{
		"the driver may go back", "the driver writes down again the deadline that it files at", "a timer that is stopped stays movable",
		"Next leaves the deadline that it goes on from movable", "a timer is movable on its second wheel", "the time of the wheel that the timer has left",
	}
	for _, c := range []struct {
		name, shown string
		edits       []string
	}{
		{"the driver may go back", "and the driver sleeps to tick", []string{
			"max(open, r.open)", "open",
			"	tick = max(tick, r.open-1)\n", "",
			"if tick >= w.open.Load() {", "{",
		}},
		{"no second look before the sleep", "and the driver sleeps to tick", []string{
			"if w.earliestTick() >= tick && !w.stopped.Load() {", "if !w.stopped.Load() {",
		}},
		{"a claim that does not ask", "panicked", []string{
			"if !atomic.CompareAndSwapUint32(&s.state, undecided, claimed) {\n\t\treturn nil\n\t}\n\treturn s.timer", "if s.state != undecided {\n\t\treturn nil\n\t}\n\tt := s.timer\n\tsched.Block(sched.At(&s.state), \"go on without asking at\", func() bool { return true })\n\ts.state = claimed\n\treturn t",
		}},
		{"the driver does not look again at a deadline that it fixes", "no order of the calls explains this", []string{
			"if word >= 0 || d.word.CompareAndSwap(word, instant(word)) {", "if d.word.Store(instant(word)); true {",
		}},
		{"the driver writes down again the deadline that it files at", "no order of the calls explains this", []string{
			"r.file(t, at, tick+1)", "r.add(t, at, tick+1)",
		}},
		{"a postponement that does not ask whether the deadline is the one that it saw", "no order of the calls explains this", []string{
			"d.word.CompareAndSwap(seen, at|movable)", "d.word.CompareAndSwap(d.word.Load(), at|movable)",
		}},
		{"a timer that is stopped stays movable", "no order of the calls explains this", []string{
			"			s.panicCopied()\n		}\n		t.deadline.fix()\n", "			s.panicCopied()\n		}\n",
		}},
		{"Next leaves the deadline that it goes on from movable", "no order of the calls explains this", []string{
			"followingPeriod(t.deadline.fix(), now, period)", "followingPeriod(t.deadline.at(), now, period)",
		}},
		{"a timer is movable on its second wheel", "no order of the calls explains this", []string{
			"t.migrated = true", "",
		}},
		{"the time of the wheel that the timer has left", "no order of the calls explains this", []string{
			"if s.wheel != w {", "if false {",
		}},
		{"Every does not ask whether the call before has returned", "two calls overlap", []string{
			"calls := !e.busy.Swap(true)", "e.busy.Swap(true)\n\tcalls := true",
		}},
		{"Every that was refused stays busy", "a call that has ended keeps the job busy", []string{
			"	e.shard.mu.Unlock()\n	e.busy.Store(false)", "	e.shard.mu.Unlock()",
		}},
		{"Every lets its place go", "places are taken", []string{
			"if slot.periodic {", "if slot.periodic {\n\t\t\tw.releasePending(1)",
		}},
		{"Every is armed when its call has returned", "while its call runs", []string{
			"	s.armed++\n	s.file(t, deadline)\n	if !calls", "	if !calls",
			"	e.busy.Store(false)\n}\n\n// refuseCall", "	e.shard.mu.Lock()\n	e.shard.armed++\n	e.shard.file(t, e.next)\n	e.shard.mu.Unlock()\n	e.busy.Store(false)\n}\n\n// refuseCall",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name != always && os.Getenv("WHEELLOCK_STATES") == "" {
				t.Skip("WHEELLOCK_STATES=some, for each is a program of its own")
			}
			if slices.Contains(long, c.name) && os.Getenv("WHEELLOCK_FAULTS") != "all" {
				t.Skip("WHEELLOCK_FAULTS=all")
			}
			run := "TestExplore$"
			if strings.HasPrefix(c.name, "Every") {
				run = "TestExploreEvery$"
			}
			out, err := runExploration(t, run, c.edits...)
			require.Error(t, err)
			require.Contains(t, out, c.shown)
			t.Log(out)
		})
	}
}
