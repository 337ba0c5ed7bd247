package run

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
)

func TestLoadAverageIsThatOfTheLastMinute(t *testing.T) {
	require.Equal(t, report.NumberOf(10.71), loadAverage("10.71 5.94 2.93 11/158 21175\n"))
	require.Equal(t, report.Number{}, loadAverage(""), "not on this system")
	require.Equal(t, report.Number{}, loadAverage("what"))
}

func TestBusyTimeIsThatOfPrograms(t *testing.T) {
	busy, processors := busyTime("cpu  1000 200 300 9999 50 60 70 400 900 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu1 1 2 3 4 5 6 7 8 9 0\nintr 5\n")
	require.InDelta(t, 19, busy.Value, 1e-9, "user, nice, system and what other virtual machines took")
	require.Equal(t, max(2, runtime.NumCPU()), processors)
	busy, processors = busyTime("")
	require.Equal(t, report.Number{}, busy)
	require.Zero(t, processors)
}

func TestOtherProgramsAreWhatIsLeft(t *testing.T) {
	n := report.NumberOf[float64]
	require.Equal(t, n(1.5), usedByOthers(n(20), n(5), 10))
	require.Equal(t, n(0), usedByOthers(n(4.9), n(5), 10), "clocks differ a little")
	require.Equal(t, report.Number{}, usedByOthers(n(0), n(5), 10), "the machine cannot have done less than we")
	require.Equal(t, report.Number{}, usedByOthers(report.Number{}, n(0), 10))
	require.Equal(t, report.Number{}, usedByOthers(n(20), report.Number{}, 10))
}

func TestMachineIsWatchedWhereItCanBe(t *testing.T) {
	m := WatchMachine(holders.OneServer(fixture.Mini(t)))
	l := m.Load()
	if runtime.GOOS != "linux" {
		require.Equal(t, report.Load{}, l)
		return
	}
	require.True(t, l.Average.Known)
	require.GreaterOrEqual(t, l.Processors, runtime.NumCPU())
}
