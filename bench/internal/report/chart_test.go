package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

// fullRows returns rows as of a run of all drivers. Each row has a value for each
// chart.
func fullRows(counts ...int) []Row {
	var rows []Row
	for _, n := range counts {
		for k, d := range Drivers() {
			r := soundRow(d, n, float64(k+1)*3, float64(k+1)*2)
			r.ScriptMean, r.ScriptP99, r.ScriptMax = NumberOf(100*k+50), NumberOf(200*k+90), NumberOf(900)
			for s := range 30 {
				r.ServerCPU = append(r.ServerCPU, CPUSample{At: NumberOf(float64(s+1) / 10), Cores: NumberOf(float64(s%3) / 3)})
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// drawn are the shapes of an SVG document that have a driver's colour.
type drawn struct {
	lines map[string][]int // corners of each line, by driver
	texts []string
}

var corners = regexp.MustCompile(`[ML]-?[\d.e+-]+,-?[\d.e+-]+`)

func parseSVG(t *testing.T, text []byte) drawn {
	t.Helper()
	got := drawn{lines: map[string][]int{}}
	dec := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return got
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			attr := map[string]string{}
			for _, a := range e.Attr {
				attr[a.Name.Local] = a.Value
			}
			for _, d := range Drivers() {
				c := colorOf(d)
				stroke := fmt.Sprintf("stroke:#%02X%02X%02X", c.R, c.G, c.B)
				if e.Name.Local == "path" && strings.Contains(attr["style"], stroke) && !strings.Contains(attr["style"], "dasharray") {
					got.lines[d] = append(got.lines[d], len(corners.FindAllString(attr["d"], -1)))
				}
			}
		case xml.CharData:
			if s := strings.TrimSpace(string(e)); s != "" {
				got.texts = append(got.texts, s)
			}
		}
	}
}

func TestChartsHaveALineWithAPointForEachRow(t *testing.T) {
	rows := fullRows(1000, 10_000, 100_000)
	charts := chartsOf(rows)
	require.Len(t, charts, 7)
	for _, c := range charts {
		text, err := c.draw(rows)
		require.NoError(t, err)
		got := parseSVG(t, text)
		for _, d := range Drivers() {
			require.Equal(t, []int{3}, got.lines[d], "%s: %s", c.file, d)
			require.Contains(t, got.texts, d, c.file)
		}
		for _, label := range []string{c.title, c.yLabel(), "1,000", "10,000", "100,000", "locks held, logarithmic"} {
			require.Contains(t, got.texts, label, c.file)
		}
	}
}

func TestRowWithoutAValueIsAGapAndAnUnsoundOneARing(t *testing.T) {
	rows := fullRows(1000, 2000, 5000, 10_000, 20_000)
	var lost, gone Row
	for i := range rows {
		switch r := &rows[i]; {
		case r.Driver == "afterfunc" && r.Locks == 5000:
			*r = Row{Driver: r.Driver, Locks: r.Locks, Faults: []string{"not run: Redis does not answer"}}
			gone = *r
		case r.Driver == "sweep" && r.Locks == 20_000:
			r.Lost = NumberOf(7)
			lost = *r
		}
	}
	for _, c := range chartsOf(rows) {
		text, err := c.draw(rows)
		require.NoError(t, err)
		got := parseSVG(t, text)
		require.Equal(t, []int{2, 2}, got.lines["afterfunc"], c.file)
		require.Equal(t, []int{5}, got.lines["sweep"], c.file)
		require.Contains(t, strings.Join(got.texts, "\n"), "ring: missed or lost")
	}
	var page strings.Builder
	require.NoError(t, writePage(&page, &Report{Rows: rows}, nil))
	require.Contains(t, page.String(), gone.String()+": not run: Redis does not answer")
	require.Contains(t, page.String(), lost.String()+": lost 7 locks")
	require.Equal(t, 2, strings.Count(page.String(), `bad"`), "both rows stand out")
	require.Contains(t, page.String(), "<td>n/a</td>")
}

func TestChartsOfOddRowsAreDrawn(t *testing.T) {
	zero := soundRow("wheel", 7, 0, 0) // below every axis
	zero.LateP50, zero.LateP99 = NumberOf(0), NumberOf(0)
	for name, rows := range map[string][]Row{
		"one row":                {soundRow("sweep", 1000, 1, 1)},
		"zeros":                  {zero},
		"a driver that ran once": {soundRow("sweep", 10, 1, 1), soundRow("sweep", 20, 1, 1), soundRow("wheel", 10, 1, 1)},
		"no row":                 {},
		"nothing measured":       {{Driver: "wheel", Locks: 5, Faults: []string{"x"}}},
		"elsewhere than Linux":   {{Driver: "wheel", Locks: 5, Heap: NumberOf(1 << 20)}},
	} {
		files, err := drawAll(rows)
		require.NoError(t, err, name)
		for _, f := range files {
			require.NotContains(t, string(f.text), "NaN", "%s: %s", name, f.file)
			parseSVG(t, f.text)
		}
		var page strings.Builder
		require.NoError(t, writePage(&page, &Report{Rows: rows}, files), name)
		if len(rows) == 0 {
			require.Contains(t, page.String(), "No row was measured")
		}
	}
}

func TestServerCPUHasAStripForEachRowOfTheMostLocks(t *testing.T) {
	rows := fullRows(1000, 10_000)
	sampled := sampledRows(rows)
	require.Len(t, sampled, len(Drivers()))
	require.Equal(t, 10_000, sampled[0].Locks)
	text, err := drawServerCPU(sampled)
	require.NoError(t, err)
	got := parseSVG(t, text)
	for _, d := range Drivers() {
		require.Equal(t, []int{2 * 30}, got.lines[d], "two corners a sample")
		require.Contains(t, got.texts, d)
	}
}

func TestNamesOfLinesDoNotCoverEachOther(t *testing.T) {
	require.Equal(t, lengths(5, 15, 25), spread(lengths(5, 5, 5), 10, 0, 100))
	require.Equal(t, lengths(80, 90, 100), spread(lengths(97, 98, 99), 10, 0, 100))
	require.Equal(t, lengths(0, 10, 20), spread(lengths(1, 2, 3), 10, 0, 20))
	require.Equal(t, lengths(0, 50, 100), spread(lengths(0, 50, 100), 10, 0, 100), "what is apart stays")
}

func lengths(values ...float64) []vg.Length {
	var out []vg.Length
	for _, v := range values {
		out = append(out, vg.Length(v))
	}
	return out
}

// The answer comes first, and the page explains the rows before it draws them.
func TestPageAnswersThenExplainsThenDraws(t *testing.T) {
	rows := fullRows(1000, 10_000)
	files, err := drawAll(rows)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, writePage(&b, &Report{Rows: rows}, files))
	page, at := b.String(), 0
	for _, part := range []string{
		"prefers-color-scheme: dark", `class="answer">` + Answer(rows), Describe(AfterFunc), Describe(Wheel), Describe(Library), Describe(Sweep),
		"<svg", "us, logarithmic", "locks held, logarithmic", "<table>", "Where and how",
	} {
		found := strings.Index(page[at:], part)
		require.GreaterOrEqual(t, found, 0, "%q in its place", part)
		at += found
	}
}
