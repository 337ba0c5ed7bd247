package rows

import (
	"strings"
	"testing"
)

func TestTablesShowTheMedian(t *testing.T) {
	table := Table[float64]{Title: "%d", Columns: []Column[float64]{{Name: "x", Of: func(x float64) float64 { return x }, Form: "%.1f"}}}
	for want, runs := range map[string][]float64{
		"| impl | 7.0 |": {7},
		"| impl | 1.5 |": {2, 1},
		"| impl | 3.0 |": {9, 1, 3},
		"| impl | 2.5 |": {9, 3, 1, 2},
	} {
		var text strings.Builder
		table.print(&text, 1, []string{"impl"}, map[string][]float64{"impl": runs})
		if !strings.Contains(text.String(), want) {
			t.Errorf("%v: %s lacks %s", runs, text.String(), want)
		}
	}
}
