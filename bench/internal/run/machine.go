package run

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/redistest"
)

// ticksPerSecond is the unit of /proc/stat, the same on all of Linux.
const ticksPerSecond = 100

// A Machine measures how busy the machine is with other programs than bench and
// its Redis. Only Linux tells; elsewhere the report's Load is n/a. It is used by
// one goroutine.
type Machine struct {
	target    *holders.Target
	load      report.Load
	begun     time.Time
	busy, own report.Number // seconds of CPU, when it began
}

// WatchMachine begins to measure.
func WatchMachine(t *holders.Target) *Machine {
	average, _ := os.ReadFile("/proc/loadavg")
	stat, _ := os.ReadFile("/proc/stat")
	busy, processors := busyTime(string(stat))
	return &Machine{
		target: t, begun: time.Now(), busy: busy, own: ownCPUTime(t),
		load: report.Load{Processors: processors, Average: loadAverage(string(average))},
	}
}

// Load returns the load until now. The use by other programs is n/a if the CPU
// of Redis is, or if the counters contradict each other.
func (m *Machine) Load() report.Load {
	stat, _ := os.ReadFile("/proc/stat")
	busy, _ := busyTime(string(stat))
	l := m.load
	l.Others = usedByOthers(busy.Minus(m.busy), ownCPUTime(m.target).Minus(m.own), time.Since(m.begun).Seconds())
	return l
}

// usedByOthers returns how much other programs used the processors. busy is the time in which
// the machine was busy, own the time that bench itself used.
func usedByOthers(busy, own report.Number, seconds float64) report.Number {
	switch {
	case !busy.Known || !own.Known || busy.Value < own.Value/2: // some sandboxes show a machine that does nothing
		return report.Number{}
	}
	return report.NumberOf(max(busy.Value-own.Value, 0)).Per(seconds)
}

// ownCPUTime is the CPU that this process, the rows that have ended, and a Redis on
// this machine have used.
func ownCPUTime(t *holders.Target) report.Number {
	own := cpuTime().Plus(childTime())
	if isLocal(t) && t.Servers()[0].Kind() != redistest.Mini { // which is in this process
		own = own.Plus(readUsage(t, false).cpu())
	}
	return own
}

// loadAverage reads /proc/loadavg: the average of one minute is first.
func loadAverage(text string) report.Number {
	first, _, _ := strings.Cut(text, " ")
	return parseNumber(first)
}

// busyTime reads /proc/stat: the seconds in which the processors were not idle,
// and how many processors there are. Interrupts are left out, because most of
// them are of bench's own connections.
func busyTime(text string) (busy report.Number, processors int) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 8 && fields[0] == "cpu":
			busy = report.NumberOf(0)
			for _, i := range []int{1, 2, 3, 8} { // user, nice, system, steal
				busy = busy.Plus(parseNumber(fields[i]))
			}
			busy = busy.Times(1.0 / ticksPerSecond)
		case len(fields) > 0 && strings.HasPrefix(fields[0], "cpu"):
			processors++
		}
	}
	if processors > 0 { // a container may see fewer lines than it has processors
		processors = max(processors, runtime.NumCPU())
	}
	return busy, processors
}
