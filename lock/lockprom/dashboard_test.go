package lockprom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// dashboard has the parts of dashboard.json that can be wrong.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

var (
	metricName = regexp.MustCompile(`\bwheellock_\w+`)
	labelList  = regexp.MustCompile(`\bby \(([^)]*)\)`)
	variable   = regexp.MustCompile(`\$(\w+)`)
)

// familyOf returns the family of a name in an expression, or nil. A histogram has three names.
func familyOf(exported map[string]*dto.MetricFamily, name string) *dto.MetricFamily {
	if f := exported[name]; f != nil {
		return f
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if f := exported[strings.TrimSuffix(name, suffix)]; strings.HasSuffix(name, suffix) && f.GetType() == dto.MetricType_HISTOGRAM {
			return f
		}
	}
	return nil
}

// faults returns the faults of an expression: names, types, labels and brackets.
func faults(exported map[string]*dto.MetricFamily, expr string) (bad []string) {
	labels := []string{"le", "job"}
	for _, name := range metricName.FindAllString(expr, -1) {
		f := familyOf(exported, name)
		if f == nil {
			bad = append(bad, name+" is not exported")
			continue
		}
		if isGauge := f.GetType() == dto.MetricType_GAUGE; isGauge == strings.Contains(expr, "rate("+name) {
			bad = append(bad, name+" is a "+f.GetType().String())
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
	}
	for _, m := range labelList.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			if !slices.Contains(labels, strings.TrimSpace(label)) {
				bad = append(bad, "no label "+label)
			}
		}
	}
	var open []rune
	for _, r := range expr {
		switch r {
		case '(', '[', '{':
			open = append(open, r)
		case ')', ']', '}':
			if len(open) == 0 || !slices.Contains([]string{"()", "[]", "{}"}, string(open[len(open)-1])+string(r)) {
				return append(bad, "brackets")
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		bad = append(bad, "brackets")
	}
	return bad
}

// TestTheDashboardShowsWhatIsExported: all of it, and nothing else.
func TestTheDashboardShowsWhatIsExported(t *testing.T) {
	d, exported := readDashboard(t), gather(t, clientWithClock(t))
	variables := []string{"__rate_interval", "__all"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	shown, ids := map[string]bool{}, map[int]bool{}
	for _, p := range d.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		require.False(t, ids[p.ID], "panel %d is there twice", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, target := range p.Targets {
			require.Empty(t, faults(exported, target.Expr), "%s: %s", p.Title, target.Expr)
			require.NotEmpty(t, metricName.FindString(target.Expr), "%s: %s", p.Title, target.Expr)
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				shown[familyOf(exported, name).GetName()] = true
			}
			for _, m := range variable.FindAllStringSubmatch(target.Expr, -1) {
				require.Contains(t, variables, m[1], p.Title)
			}
			if label := regexp.MustCompile(`{{(\w+)}}`).FindStringSubmatch(target.LegendFormat); label != nil {
				require.Contains(t, target.Expr, "by ("+label[1]+")", p.Title)
			}
		}
	}
	for name := range exported {
		require.True(t, shown[name], "no panel shows %s", name)
	}
	for _, v := range d.Templating.List {
		query, err := json.Marshal(v.Query)
		require.NoError(t, err)
		require.Empty(t, faults(exported, strings.ReplaceAll(string(query), `"`, "")), v.Name)
	}
}

func TestFaultsOfADashboardAreFound(t *testing.T) {
	exported := gather(t, clientWithClock(t))
	for expr, fault := range map[string]string{
		`wheellock_locks`:                                                        "not exported",
		`wheellock_locks_held_bucket`:                                            "not exported",
		`sum(rate(wheellock_locks_held[1m]))`:                                    "is a GAUGE",
		`wheellock_releases_total`:                                               "is a COUNTER",
		`sum by (name) (rate(wheellock_acquisitions_total[1m]))`:                 "no label name",
		`sum(rate(wheellock_releases_total[1m])`:                                 "brackets",
		`sum(rate(wheellock_releases_total[1m)])`:                                "brackets",
		`sum by (le) (rate(wheellock_acquire_duration_seconds_buckets[1m]))`:     "not exported",
		`histogram_quantile(1, rate(wheellock_acquire_duration_seconds_sum[1m])`: "brackets",
	} {
		require.Contains(t, strings.Join(faults(exported, expr), "; "), fault, expr)
	}
	require.Empty(t, faults(exported, `sum by (outcome) (rate(wheellock_acquisitions_total{job=~"$job"}[1m]))`))
}
