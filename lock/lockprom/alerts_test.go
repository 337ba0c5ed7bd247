package lockprom_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// alert is a rule of alerts.yml.
type alert struct {
	Alert, Expr, For string
	Labels           struct{ Severity string }
	Annotations      struct{ Panel, Summary, Description string }
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

// TestEachAlertHasItsPanel: it is about metrics that are exported, and its panel shows the same ones.
func TestEachAlertHasItsPanel(t *testing.T) {
	d, exported := readDashboard(t), gather(t, clientWithClock(t))
	panels := map[string]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			panels[p.Title] += target.Expr
		}
	}
	alerts := readAlerts(t)
	require.NotEmpty(t, alerts)
	names := map[string]bool{}
	for _, a := range alerts {
		require.Regexp(t, `^Wheellock[A-Z]\w+$`, a.Alert)
		require.False(t, names[a.Alert], "%s is there twice", a.Alert)
		names[a.Alert] = true
		require.Empty(t, faults(exported, strings.ReplaceAll(a.Expr, "increase(", "rate(")), a.Alert)
		for _, name := range metricName.FindAllString(a.Expr, -1) {
			require.Contains(t, panels[a.Annotations.Panel], name, a.Alert)
		}
		for _, m := range regexp.MustCompile(`reason="(\w+)"`).FindAllStringSubmatch(a.Expr, -1) {
			series(t, exported["wheellock_losses_total"], m[1])
		}
		require.Contains(t, []string{"critical", "warning"}, a.Labels.Severity, a.Alert)
		require.Contains(t, a.Annotations.Summary, "{{ $value", a.Alert)
		require.NotEmpty(t, a.Annotations.Description, a.Alert)
	}
}

// TestAlertsComeWhenTheyShould, and only then, as Prometheus sees it.
func TestAlertsComeWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool, of Prometheus, is not in PATH")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "testdata/alerts_test.yml"}} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// TestServiceNamesTheAlerts: lock/SERVICE.md names each alert.
func TestServiceNamesTheAlerts(t *testing.T) {
	page, err := os.ReadFile("../SERVICE.md")
	require.NoError(t, err)
	for _, a := range readAlerts(t) {
		require.Contains(t, string(page), "`"+a.Alert+"`")
	}
}
