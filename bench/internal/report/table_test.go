package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func soundRow(driver string, locks int, client, redis float64) Row {
	return Row{
		Driver: driver, Locks: locks, ClientCPUSeconds: NumberOf(1.5), ClientCPU: NumberOf(client), RedisCPU: NumberOf(redis),
		RSS: NumberOf(30 << 20), Heap: NumberOf(5 << 20), Goroutines: NumberOf(11), GCCycles: NumberOf(2), Batch: NumberOf(1.5),
		Renewals: NumberOf(50_000), RenewalsPerSecond: NumberOf(9999.6), LateP50: NumberOf(0.04), LateP99: NumberOf(10.8), LateMax: NumberOf(13.5),
		Missed: NumberOf(0), Lost: NumberOf(0),
	}
}

func TestTableIsAligned(t *testing.T) {
	lost := Row{Driver: "afterfunc", Locks: 100_000, Missed: NumberOf(100_000), Lost: NumberOf(100_000), Faults: []string{"no answer"}}
	var b bytes.Buffer
	few := soundRow("wheel-batch", 1000, 5.046, 4.5)
	few.Renewals, few.LateP99 = NumberOf(99), Number{}
	writeTable(&b, []Row{soundRow("wheel-batch", 1000, 5.046, 4.5), few, lost})
	require.Equal(t, strings.TrimPrefix(`
                      client  client us  Redis us      peak     live  goroutines      GC  renewals  late ms  late ms  late ms
driver         locks   CPU s   /renewal  /renewal       RSS     heap      (peak)  cycles        /s      p50      p99      max   missed     lost
wheel-batch    1,000    1.50       5.05      4.50  30.0~MiB  5.0~MiB          11       2    10,000      0.0     10.8     13.5        0        0
wheel-batch    1,000    1.50       5.05      4.50  30.0~MiB  5.0~MiB          11       2    10,000      0.0  too few     13.5        0        0

afterfunc    100,000     n/a        n/a       n/a       n/a      n/a         n/a     n/a       n/a      n/a      n/a      n/a  100,000  100,000

`, "\n"), strings.ReplaceAll(b.String(), "\u00a0", "~"))
}

func TestTableOfNoRowsIsNothing(t *testing.T) {
	var b bytes.Buffer
	writeTable(&b, nil)
	require.Empty(t, b.String())
}

func TestTextAnswersFirstThenExplainsThenShowsTheTable(t *testing.T) {
	var b bytes.Buffer
	WriteText(&b, &Report{
		Environment: Environment{
			Go: "go1.25.0", OS: "linux", Arch: "amd64", CPUs: 2, GOMAXPROCS: 2, GOGC: "100", Redis: "redis-server 7", Notes: []string{"note: x"}, LeaseMs: 3000, DurationMs: 5000,
		},
		Rows: []Row{soundRow("afterfunc", 10, 4, 4), soundRow("wheel", 10, 1, 1)},
	})
	text, at := b.String(), 0
	for _, part := range []string{
		"With 10 locks, each renewed every 1s:\n", "by hand (afterfunc)", "With 10 locks, one timing wheel instead of one time.AfterFunc per lock takes 75\u00a0% less client CPU", "\n\n",
		"afterfunc  one time.AfterFunc and one round trip per lock", "wheel      the same loop", "driver", "goroutines",
		"go1.25.0 linux/amd64", "2 CPUs", "GOGC 100", "Redis: redis-server 7", "lease 3s", "for 5s", "\nnote: x\n",
	} {
		found := strings.Index(text[at:], part)
		require.GreaterOrEqual(t, found, 0, "%q, in its place, in\n%s", part, text)
		at += found
	}
}

func TestRemarksSayHowLongAScriptHoldsTheServer(t *testing.T) {
	few, many, lost := soundRow("wheel-batch", 10, 1, 1), soundRow("wheel-batch", 20, 1, 1), soundRow("sweep", 20, 1, 1)
	few.ScriptMean, many.ScriptMean, lost.ScriptMean = NumberOf(1), NumberOf(350.4), NumberOf(9)
	many.ScriptP99, lost.Lost = NumberOf(600), NumberOf(1)
	require.Contains(t, Remarks([]Row{few, many, lost}),
		"One script call holds Redis for, in us, mean, p99 and max (20 locks): wheel-batch 350, 600, n/a.")
	require.Empty(t, Remarks([]Row{soundRow("wheel-batch", 10, 1, 1)}), "nothing is said of what was not measured")
}

func TestRemarksSpeakOfRowsThatWereRun(t *testing.T) {
	wb, af := soundRow("wheel-batch", 1000, 2, 3), soundRow("afterfunc", 1000, 10, 12)
	require.Equal(t, []string{
		"Timer and batch together (wheel-batch against afterfunc, 1,000 locks): client CPU 2.00\u00a0us instead of 10.00\u00a0us, 80\u00a0% less; " +
			"Redis CPU 3.00\u00a0us instead of 12.00\u00a0us, 75\u00a0% less; 11 goroutines instead of 11.",
		"CPU is per renewal. This is one run: a few percent say nothing.",
	}, Remarks([]Row{wb, af}))
	require.Contains(t, Remarks([]Row{af, soundRow("wheel-batch", 1000, 20, 3)})[0], "100\u00a0% more", "the worse is said as well")
	require.Empty(t, Remarks([]Row{wb}))
	require.Empty(t, Remarks([]Row{wb, soundRow("afterfunc", 2000, 10, 12)}), "other numbers of locks do not compare")

	big := soundRow("wheel-batch", 2000, 4, 3)
	require.Contains(t, Remarks([]Row{wb, af, big, soundRow("afterfunc", 2000, 10, 12)})[0], "2,000 locks")

	af.Lost = NumberOf(1)
	require.Empty(t, Remarks([]Row{wb, af}), "a row that lost locks did less work")

	all := []Row{}
	for _, d := range Drivers() {
		all = append(all, soundRow(d, 10, 1, 1))
	}
	require.Len(t, Remarks(all), 8)

	for i := range all { // embedded, on Windows
		all[i].RedisCPU, all[i].ClientCPU = Number{}, Number{}
	}
	require.NotContains(t, strings.Join(Remarks(all), "\n"), "n/a")
}
