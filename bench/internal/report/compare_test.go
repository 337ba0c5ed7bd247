package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// costs is a sound row with the values of a comparison.
func costs(driver string, n int, us float64, goroutines int, p99 float64) Row {
	r := soundRow(driver, n, us, 1)
	r.Goroutines, r.LateP99, r.LateMax = NumberOf(goroutines), NumberOf(p99), NumberOf(p99*2)
	return r
}

func compared() *Report {
	return &Report{
		Environment: Environment{LeaseMs: 3000, DurationMs: 4000},
		Rows: []Row{
			costs(AfterFunc, 1000, 1, 1, 1), costs(Wheel, 1000, 1, 1, 1), costs(Library, 1000, 1, 1, 1),
			costs(Wheel, 5000, 55, 94, 3), costs(WheelBatch, 5000, 8, 7, 12), costs(Library, 5000, 13.6, 11, 30), costs(AfterFunc, 5000, 68, 94, 2),
		},
	}
}

func TestReportBeginsWithByHandTheWheelAndTheLibrary(t *testing.T) {
	var b bytes.Buffer
	WriteText(&b, compared())
	text, _, _ := strings.Cut(b.String(), "\n\nWith 5,000 locks, one timing wheel")
	require.Equal(t, strings.TrimPrefix(`
With 5,000 locks, each renewed every 1s:

                      client CPU per renewal   goroutines           late, 99th percentile
by hand (afterfunc)   68.00~us                 94                    2.0~ms
the wheel             55.00~us  19~% less      94  about the same    3.0~ms  50~% more
the library           13.60~us  80~% less      11  88~% less        30.0~ms  15~times as much`, "\n"), strings.ReplaceAll(text, "\u00a0", "~"))

	var page strings.Builder
	require.NoError(t, writePage(&page, compared(), nil))
	at := 0
	for _, part := range []string{
		"With 5,000 locks, each renewed every 1s",
		"client CPU per renewal", "by hand", "afterfunc", "68.00~us", "background:#d55e00;width:100.0%", "the wheel", "19~% less", "55.00~us", "the library", "80~% less", "13.60~us", "width:20.0%",
		"goroutines", "by hand", "the wheel", "the library", "88~% less", "11",
		"late, 99th percentile", "by hand", "the wheel", "the library", "15~times as much", "30.0~ms",
		`class="answer">`,
	} {
		found := strings.Index(page.String()[at:], strings.ReplaceAll(part, "~", "\u00a0"))
		require.GreaterOrEqual(t, found, 0, "%q in its place", part)
		at += found
	}
}

func TestComparisonIsOfRowsThatKeptTheirLocks(t *testing.T) {
	rep := compared()
	for i := range rep.Rows {
		if r := &rep.Rows[i]; r.Locks == 5000 && r.Driver != Library {
			r.Lost = NumberOf(3)
		}
	}
	c, ok := rep.compare()
	require.True(t, ok)
	require.Contains(t, c.head, "With 1,000 locks", "more ways were sound there")
	require.Len(t, c.contenders, 3)
	_, ok = (&Report{Rows: []Row{costs(Library, 10, 1, 1, 1), costs(Sweep, 10, 1, 1, 1)}}).compare()
	require.False(t, ok, "one way compares with nothing")
	rep.Max = []Max{{Driver: Library}}
	_, ok = rep.compare()
	require.False(t, ok, "-max answers another question")
}

func TestComparisonTakesTheWheelInBatchesWhereThereIsNoOther(t *testing.T) {
	c, ok := (&Report{Rows: []Row{costs(WheelBatch, 10, 1, 1, 1), costs(AfterFunc, 10, 2, 1, 1)}}).compare()
	require.True(t, ok)
	require.Equal(t, []contender{{"by hand", AfterFunc}, {"the wheel, in batches", WheelBatch}}, c.contenders)
	require.Equal(t, "50\u00a0% less", c.measures[0].cells[1].change)
}

// Few renewals have no percentile, and their CPU time says nothing.
func TestComparisonOfFewRenewals(t *testing.T) {
	rep := compared()
	for i := range rep.Rows {
		rep.Rows[i].Renewals, rep.Rows[i].LateP99 = NumberOf(60), Number{}
	}
	c, _ := rep.compare()
	require.Equal(t, "client CPU per renewal", c.measures[0].name)
	require.Empty(t, c.measures[0].cells[1].change)
	require.Equal(t, "late, at most", c.measures[2].name)
	require.Equal(t, "4.0\u00a0ms", c.measures[2].cells[0].value)
}

func TestRowThatLostLocksSaysSoInWords(t *testing.T) {
	lost, missed, broken := soundRow(AfterFunc, 10_000, 1, 1), soundRow(Sweep, 10_000, 1, 1), soundRow(Wheel, 10_000, 1, 1)
	lost.Lost, lost.Missed = NumberOf(2604), NumberOf(3100)
	missed.Missed = NumberOf(1)
	broken.Missed, broken.Lost, broken.Faults = Number{}, Number{}, []string{"the row's process died"}
	rows := []Row{soundRow(Library, 10_000, 1, 1), lost, missed, broken}
	want := []string{
		"afterfunc, 10,000 locks: lost 2,604 locks, missed the renewal of 3,100 locks",
		"sweep, 10,000 locks: lost no lock, missed the renewal of 1 lock",
		"wheel, 10,000 locks: the row's process died",
	}
	require.Equal(t, want, faultsOf(rows))
	var text, page strings.Builder
	WriteText(&text, &Report{Rows: rows})
	require.Contains(t, text.String(), "\n\n"+strings.Join(want, "\n")+"\n\n", "each row has a line of its own, above the table")
	require.NoError(t, writePage(&page, &Report{Rows: rows}, nil))
	for _, line := range want {
		require.Contains(t, page.String(), "<li>"+strings.ReplaceAll(line, "'", "&#39;")+"</li>")
	}
	require.EqualError(t, CheckSound(rows), "bench: FAILED: 3 of 4 rows: lost 2,604 locks, missed the renewal of 3,101 locks, 1 without a complete result")
	require.EqualError(t, CheckSound(rows[3:]), "bench: FAILED: 1 of 1 rows: 1 without a complete result")
	require.NoError(t, CheckSound(rows[:1]))
	missed.Lost = Number{}
	require.Equal(t, "sweep, 10,000 locks: missed the renewal of 1 lock", missed.Losses(), "what is not known is not said")
}

// breakable is a number and its unit with a space between them at which a line
// can end.
var breakable = regexp.MustCompile(`\d (%|us|ms|s|MiB|times as much|renewals/s|locks/s)([^a-z/]|$)`)

func TestNoLineEndsBetweenANumberAndItsUnit(t *testing.T) {
	require.Regexp(t, breakable, "47 % less")
	for _, counts := range [][]int{{1000}, {1000, 10_000}} {
		rep := compared()
		rep.Rows = append(fullRows(counts...), rep.Rows...)
		for i := range rep.Rows {
			rep.Rows[i].Masters = []Master{{"a:1", NumberOf(30), NumberOf(1)}}
		}
		rep.Environment.Load = Load{2, NumberOf(4), NumberOf(1)}
		var text, page strings.Builder
		WriteText(&text, rep)
		files, err := drawAll(rep.Rows)
		require.NoError(t, err)
		require.NoError(t, writePage(&page, rep, files))
		require.Empty(t, breakable.FindString(text.String()))
		require.Empty(t, breakable.FindString(page.String()))
	}
}

func TestP99NeedsAHundredValues(t *testing.T) {
	require.Equal(t, NumberOf(7), P99(NumberOf(7), NumberOf(100)))
	require.Equal(t, Number{}, P99(NumberOf(7), NumberOf(99)))
	require.Equal(t, Number{}, P99(NumberOf(7), Number{}))
	require.Equal(t, "too few", p99Cell(Number{}, NumberOf(99), 0))
	require.Equal(t, "n/a", p99Cell(Number{}, NumberOf(100), 0), "the server did not tell")
	require.Equal(t, "n/a", p99Cell(Number{}, Number{}, 0))

	r := soundRow(Sweep, 10, 1, 1)
	r.LateP99, r.Scripts, r.ScriptMean = Number{}, NumberOf(12), NumberOf(5)
	for _, c := range chartsOf([]Row{r}) {
		require.NotContains(t, c.title, "99th percentile")
	}
	require.Contains(t, strings.Join(Remarks([]Row{r}), "\n"), "sweep 5, too few, n/a")
	var page strings.Builder
	require.NoError(t, writePage(&page, &Report{Rows: []Row{r}}, nil))
	require.Contains(t, page.String(), "<td>too few</td>")
}

func TestCountsHaveCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 44_398: "44,398", 1_234_567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		require.Equal(t, want, Count(n))
	}
	require.Equal(t, "12,345.60", NumberOf(12345.6).digits(2))
	require.Equal(t, "1 lock, 2 locks", fmt.Sprint(locks(1), ", ", locks(2)))
}

func TestBusyMachineIsSaid(t *testing.T) {
	for _, c := range []struct {
		name          string
		load          Load
		start, report string // what the warnings begin with
	}{
		{"idle", Load{2, NumberOf(0.9), NumberOf(0.1)}, "", ""},
		{"before and during", Load{2, NumberOf(1.5), NumberOf(1.2)}, "the load average was 1.50 in the last minute, with 2 processors", "during the rows other programs used 1.20 of 2 processors"},
		{"before: the compiler", Load{2, NumberOf(3), NumberOf(0.1)}, "the load average was 3.00", ""},
		{"during", Load{8, NumberOf(0), NumberOf(2)}, "", "used 2.00 of 8 processors"},
		{"a little on many processors", Load{8, NumberOf(0), NumberOf(1.9)}, "", ""},
		{"during is not known", Load{1, NumberOf(1), Number{}}, "1.00 in the last minute, with 1 processor", "1.00 in the last minute, with 1 processor"},
		{"not on Linux", Load{}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := compared()
			rep.Environment.Load = c.load
			var text, page strings.Builder
			WriteText(&text, rep)
			require.NoError(t, writePage(&page, rep, nil))
			for said, want := range map[string]string{c.load.WarningAtStart(): c.start, rep.Environment.warning(): c.report} {
				if want == "" {
					require.Empty(t, said)
					continue
				}
				require.Contains(t, said, want)
				require.Contains(t, said, "renewals can be late", "it says what that means")
			}
			if c.report == "" {
				require.NotContains(t, text.String()+page.String(), "warning:")
			} else {
				require.Contains(t, text.String(), c.report)
				require.Contains(t, page.String(), c.report)
				require.Less(t, strings.Index(text.String(), c.report), strings.Index(text.String(), "driver"), "above the table")
			}
			require.Equal(t, c.load.Average.Known, strings.Contains(text.String(), "Load average before the rows"))
		})
	}
}
