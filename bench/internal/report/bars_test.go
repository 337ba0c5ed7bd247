package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// barWidths are the widths of the filled bars of an SVG document, by driver.
func barWidths(t *testing.T, text string) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for _, d := range Drivers() {
		c := colorOf(d)
		shape := regexp.MustCompile(fmt.Sprintf(`<path d="M([\d.]+),[\d.]+L([\d.]+),[^"]*" style="fill:#%02X%02X%02X`, c.R, c.G, c.B))
		if m := shape.FindStringSubmatch(text); m != nil {
			from, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			to, err := strconv.ParseFloat(m[2], 64)
			require.NoError(t, err)
			got[d] = to - from
		}
	}
	return got
}

func TestOneNumberOfLocksIsDrawnAsBarsWithTheirValues(t *testing.T) {
	rows := fullRows(5000)
	rows[0].Lost = NumberOf(1)
	for _, c := range chartsOf(rows) {
		text, err := c.draw(rows)
		require.NoError(t, err)
		got, widths := parseSVG(t, text), barWidths(t, string(text))
		most := c.value(rows[len(rows)-1]).Value
		for i, r := range rows {
			require.Contains(t, got.texts, r.Driver, c.file)
			require.Contains(t, got.texts, c.text(c.value(r)), c.file)
			if i == 0 {
				require.Equal(t, []int{5}, got.lines[r.Driver], "%s: hollow", c.file)
				require.Zero(t, widths[r.Driver], c.file)
				continue
			}
			require.Empty(t, got.lines[r.Driver], c.file)
			require.InDelta(t, c.value(r).Value/most, widths[r.Driver]/widths[Sweep], 0.01, "%s: bars begin at zero", c.file)
		}
		require.Contains(t, got.texts, "with 5,000 locks; hollow: missed or lost", c.file)
		require.NotContains(t, string(text), "logarithmic")
	}
	var page strings.Builder
	require.NoError(t, writePage(&page, &Report{Rows: rows}, nil))
	page.Reset()
	files, err := drawAll(rows)
	require.NoError(t, err)
	require.NoError(t, writePage(&page, &Report{Rows: rows}, files))
	require.Contains(t, page.String(), "A hollow bar is a row")
	require.NotContains(t, page.String(), "logarithmic")
}

func TestRowWithoutAValueHasNoBar(t *testing.T) {
	rows := fullRows(5000)
	rows[1].ClientCPU = Number{}
	text, err := chartsOf(rows)[0].draw(rows)
	require.NoError(t, err)
	require.NotContains(t, parseSVG(t, text).texts, rows[1].Driver)
}

func TestMemoryAxisBeginsAtZero(t *testing.T) {
	rows := fullRows(1000, 10_000)
	for i := range rows {
		rows[i].RSS = NumberOf((20 + i) << 20)
	}
	for _, c := range chartsOf(rows) {
		if c.file != "memory.svg" {
			continue
		}
		text, err := c.draw(rows)
		require.NoError(t, err)
		texts := parseSVG(t, text).texts
		require.Contains(t, texts, "0")
		require.Contains(t, texts, "20")
		require.Contains(t, texts, "MiB")
		return
	}
	t.Fatal("there is no chart of memory")
}

func TestStripWithoutDataIsNotDrawn(t *testing.T) {
	rows := fullRows(1000)
	rows[0].ServerCPU = nil
	for i := range rows[1].ServerCPU {
		rows[1].ServerCPU[i].Cores = NumberOf(0)
	}
	for i := range rows[2].ServerCPU {
		rows[2].ServerCPU[i].Cores = Number{}
	}
	sampled := sampledRows(rows)
	require.Len(t, sampled, len(rows)-3)
	text, err := drawServerCPU(sampled)
	require.NoError(t, err)
	for i, r := range rows {
		require.Equal(t, i >= 3, len(parseSVG(t, text).lines[r.Driver]) > 0, r.Driver)
	}
	files, err := drawAll(rows[:3])
	require.NoError(t, err)
	for _, f := range files {
		require.NotEqual(t, serverCPUFile, f.file)
	}
}

// A reader's font may be wider than ours.
func TestTextsOfChartsKeepTheirWidth(t *testing.T) {
	for _, counts := range [][]int{{1000}, {1000, 10_000}} {
		files, err := drawAll(fullRows(counts...))
		require.NoError(t, err)
		for _, f := range files {
			require.Equal(t, strings.Count(string(f.text), "<text "), strings.Count(string(f.text), ` textLength="`), f.file)
		}
	}
}
