package run

import (
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

const (
	cpuPeriod  = 100 * time.Millisecond
	cpuSamples = 1000 // of a row, so that its chart stays small
)

// cpuSampler samples the server's CPU while a row is watched, from outside of
// the row's process. The row is watched after everything else was measured, because
// ten samples a second cost a server half as much as a sweep of a thousand locks.
// One goroutine uses the cpuSampler.
type cpuSampler struct {
	target *holders.Target
	period time.Duration

	stop    chan struct{} // nil when nothing is sampled
	done    chan struct{} // closed when samples are complete; nil before phase watch
	samples []report.CPUSample
}

func newCPUSampler(t *holders.Target, watch time.Duration) *cpuSampler {
	return &cpuSampler{target: t, period: max(cpuPeriod, watch/cpuSamples)}
}

// enterPhase begins to sample with the row's phase watch, and ends with what follows
// it.
func (s *cpuSampler) enterPhase(name string) {
	switch {
	case name == PhaseWatch && s.done == nil:
		s.stop, s.done = make(chan struct{}), make(chan struct{})
		go s.sample(s.stop)
	case name != PhaseWatch:
		s.stopSampling()
	}
}

// stopSampling stops the sampler and returns the samples. It may be called again.
func (s *cpuSampler) stopSampling() []report.CPUSample {
	if s.done == nil {
		return nil
	}
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
	<-s.done
	return s.samples
}

// sample samples until stop, or until the server does not answer.
func (s *cpuSampler) sample(stop <-chan struct{}) {
	defer close(s.done)
	all, err := dialMasters(s.target)
	if err != nil {
		return
	}
	defer all.close()
	cpuOfAll := func() report.Number {
		sum := report.NumberOf(0)
		for _, conn := range all {
			sum = sum.Plus(readCPU(conn))
		}
		return sum
	}
	begun, before := time.Now(), cpuOfAll()
	ticks := time.NewTicker(s.period)
	defer ticks.Stop()
	for last := begun; ; {
		select {
		case <-stop:
			return
		case <-ticks.C:
		}
		cpu, now := cpuOfAll(), time.Now()
		busy := cpu.Minus(before).Per(now.Sub(last).Seconds())
		if !busy.Known {
			return
		}
		s.samples = append(s.samples, report.CPUSample{At: report.NumberOf(now.Sub(begun).Seconds()), Cores: busy})
		before, last = cpu, now
	}
}
