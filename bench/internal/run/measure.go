package run

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

// samplePeriod is the mean time between two samples of a row that holds its locks.
// Each sample costs a wake-up, which is large compared with the measured values.
const samplePeriod = 100 * time.Millisecond

// measure holds the locks and fills the row.
func (r *rowRun) measure() error {
	r.send(event{Phase: phaseSettle})
	debug.FreeOSMemory() // memory that only taking the locks needed does not count for the hold
	settle(r.holder, r.cfg.Lease, r.stop, func() { r.send(event{Phase: phaseSettle}) })
	ownPeak := resetPeakRSS()
	if r.cfg.Own {
		resetScriptStats(r.target)
	}
	r.holder.Begin()
	gcs, before := gcCycles(), readUsage(r.target, r.cfg.Own)
	begun, cpu := time.Now(), cpuTime()

	goroutines := r.holdFor(PhaseHold, r.cfg.Duration)

	held, cpu := time.Since(begun).Seconds(), cpuTime().Minus(cpu)
	c := r.holder.Counters()
	after := readUsage(r.target, r.cfg.Own)
	gcs = gcCycles() - gcs
	if ownPeak {
		r.row.RSS = peakRSS()
	}
	if r.isUnwanted() {
		return nil
	}
	if r.holder.CountHeld() == 0 {
		r.addFault(fmt.Errorf("bench: after %.1f\u00a0s of the hold no lock was held any more", held))
	}
	n := float64(c.Renewals)
	r.row.HoldSeconds = report.NumberOf(held)
	r.row.Renewals = report.NumberOf(c.Renewals)
	r.row.RenewalsPerSecond = report.NumberOf(n / held)
	r.row.Batch = report.NumberOf(n).Per(float64(c.Batches))
	r.row.ClientCPUSeconds = cpu
	r.row.ClientCPU = cpu.Times(1e6).Per(n)
	r.row.RedisCPU = after.cpu().Minus(before.cpu()).Times(1e6).Per(n)
	r.row.Scripts = after.scripts.Minus(before.scripts)
	r.row.ScriptMean = after.scriptTime.Minus(before.scriptTime).Per(r.row.Scripts.Value)
	r.row.ScriptP99, r.row.ScriptMax = report.P99(after.p99, r.row.Scripts), after.most
	r.row.Cores = coresUsed(cpu, before, after, held)
	r.row.Goroutines = report.NumberOf(goroutines)
	r.row.ServerCPUSeconds = after.cpu().Minus(before.cpu())
	if r.target.IsCluster() {
		for lane, renewed := range c.ByLane {
			r.row.Masters = append(r.row.Masters, report.Master{
				Address: r.target.Address(lane), Renewals: report.NumberOf(renewed), CPU: after.cpus[lane].Minus(before.cpus[lane]),
			})
		}
	}
	r.row.GCCycles = report.NumberOf(gcs)
	if n > 0 {
		r.row.LateP50, r.row.LateMax = report.Milliseconds(c.P50), report.Milliseconds(c.Max)
		r.row.LateP99 = report.P99(report.Milliseconds(c.P99), r.row.Renewals)
	}
	if r.cfg.Watch > 0 {
		r.holdFor(PhaseWatch, r.cfg.Watch)
	}
	r.row.Heap = liveHeap()

	lost, oddTTL, err := checkHeld(r.target, r.cfg.Locks, r.name, r.holder, r.cfg.Lease, r.progressOf("check"))
	if err != nil {
		lost, r.serverGone = r.cfg.Locks, true
		r.addFault(fmt.Errorf("no lock can be checked on the server, so all count as lost: %s", report.OneLine(err)))
	}
	if oddTTL > 0 {
		r.addFault(fmt.Errorf("bench: check: %d locks have no TTL, or one that is longer than the lease", oddTTL))
	}
	r.row.Lost = report.NumberOf(lost)
	// Renewal continues until the release, so locks that are missed during the check count.
	r.row.Missed = report.NumberOf(r.holder.Counters().Missed)
	return nil
}

// settle waits until renewals are in time. While millions of locks are taken, the server is busy, and
// renewals that become due are late, for several rounds. They must not count for the hold. settle waits
// for a lease at most, and looks once a second.
func settle(m interface {
	Begin()
	Counters() holders.Counters
}, lease time.Duration, stop <-chan struct{}, tell func(),
) {
	for end := time.Now().Add(lease); m.Counters().Max > lease/30 && time.Now().Before(end); tell() {
		m.Begin()
		select {
		case <-time.After(time.Second):
		case <-stop:
			return
		}
	}
}

// holdFor waits for d, or until no lock is held any more, or until the row is not wanted
// any more. It returns the largest number of goroutines that it saw.
func (r *rowRun) holdFor(phase string, d time.Duration) (goroutines int) {
	begun := time.Now()
	r.send(event{Phase: phase})
	end := time.NewTimer(d)
	defer end.Stop()
	sample := time.NewTimer(0)
	defer sample.Stop()
	looked := begun
	for {
		select {
		case <-end.C:
			return goroutines
		case <-r.stop:
			return goroutines
		case now := <-sample.C:
			goroutines = max(goroutines, runtime.NumGoroutine())
			// The period is random, so that samples do not fall into step with the renewals.
			sample.Reset(samplePeriod/2 + rand.N(samplePeriod))
			if now.Sub(looked) < eventPeriod {
				continue
			}
			looked = now
			r.send(event{Phase: phase, Done: int(now.Sub(begun) / time.Second)})
			if r.holder.CountHeld() == 0 {
				return goroutines
			}
		}
	}
}

// coresUsed returns how many cores a client and the servers used in some seconds.
func coresUsed(client report.Number, before, after usage, seconds float64) report.Cores {
	c := report.Cores{Client: client.Per(seconds), All: after.cpu().Minus(before.cpu()).Per(seconds)}
	for lane := range after.cpus {
		if one := after.cpus[lane].Minus(before.cpus[lane]).Per(seconds); one.Known && (!c.Redis.Known || one.Value > c.Redis.Value) {
			c.Redis = one
		}
	}
	return c
}

func gcCycles() int64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// liveHeap returns the size of the heap after a garbage collection.
func liveHeap() report.Number {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return report.NumberOf(m.HeapAlloc)
}
