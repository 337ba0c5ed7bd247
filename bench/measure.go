package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// samplePeriod is the mean time between two looks at a row that holds its
// locks: each costs a wake-up, which is dear beside what is measured.
const samplePeriod = 100 * time.Millisecond

// measure holds the locks and fills the row.
func (r *rowRun) measure() error {
	r.event(event{Phase: "settle"})
	debug.FreeOSMemory() // what taking the locks needed is not the hold's
	ownPeak := resetPeakRSS()
	if r.cfg.Own {
		observe(r.srv)
	}
	r.holder.begin()
	gcs, before := gcCycles(), useOf(r.srv, r.cfg.Own)
	begun, cpu := time.Now(), cpuTime()

	goroutines := r.hold("hold", r.cfg.Duration)

	held, cpu := time.Since(begun).Seconds(), cpuTime().minus(cpu)
	c := r.holder.counters()
	after := useOf(r.srv, r.cfg.Own)
	gcs = gcCycles() - gcs
	if ownPeak {
		r.row.RSS = peakRSS()
	}
	if r.unwanted() {
		return nil
	}
	if r.holder.live() == 0 {
		r.fault(fmt.Errorf("bench: after %.1f s of the hold no lock was held any more", held))
	}
	n := float64(c.renewals)
	r.row.HoldSeconds = some(held)
	r.row.Renewals = some(c.renewals)
	r.row.RenewalsPerSecond = some(n / held)
	r.row.Batch = some(n).per(float64(c.batches))
	r.row.ClientCPUSeconds = cpu
	r.row.ClientCPU = cpu.times(1e6).per(n)
	r.row.RedisCPU = after.cpu.minus(before.cpu).times(1e6).per(n)
	r.row.Scripts = after.scripts.minus(before.scripts)
	r.row.ScriptMean = after.scriptTime.minus(before.scriptTime).per(r.row.Scripts.value)
	r.row.ScriptP99, r.row.ScriptMax = after.p99, after.most
	r.row.Goroutines = some(goroutines)
	r.row.GCCycles = some(gcs)
	if n > 0 {
		r.row.LateP50, r.row.LateP99, r.row.LateMax = millis(c.p50), millis(c.p99), millis(c.most)
	}
	if r.cfg.Watch > 0 {
		r.hold("watch", r.cfg.Watch)
	}
	r.row.Heap = liveHeap()

	lost, oddTTL, err := checkHeld(r.srv, r.cfg.Locks, r.name, r.holder, r.cfg.Lease, r.progress("check"))
	if err != nil {
		lost, r.gone = r.cfg.Locks, true
		r.fault(fmt.Errorf("no lock can be checked on the server, so all count as lost: %s", oneLine(err)))
	}
	if oddTTL > 0 {
		r.fault(fmt.Errorf("bench: check: %d locks have a TTL that is none, or longer than the lease", oddTTL))
	}
	r.row.Lost = some(lost)
	// Renewal goes on until the release: what is missed meanwhile counts.
	r.row.Missed = some(r.holder.counters().missed)
	return nil
}

// hold waits for d, or until nothing is held any more or wanted, and returns the
// most goroutines seen.
func (r *rowRun) hold(phase string, d time.Duration) (goroutines int) {
	begun := time.Now()
	r.event(event{Phase: phase})
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
			// At random, or the samples could beat with the renewals.
			sample.Reset(samplePeriod/2 + rand.N(samplePeriod))
			if now.Sub(looked) < eventPeriod {
				continue
			}
			looked = now
			r.event(event{Phase: phase, Done: int(now.Sub(begun) / time.Second)})
			if r.holder.live() == 0 {
				return goroutines
			}
		}
	}
}

func gcCycles() int64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// liveHeap is what a collection leaves.
func liveHeap() number {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return some(m.HeapAlloc)
}
