package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
	"github.com/wheellock/wheellock/bench/peers/internal/usage"
	"github.com/wheellock/wheellock/wheel"
)

// The rows below are typical uses of timers.

// lateness records how late timers fire while a row is watched, and how many ever fired early.
type lateness struct {
	late  wheel.Recorder
	early atomic.Int64
}

func (l *lateness) note(late int64) {
	if late < 0 {
		l.early.Add(1)
	}
	if the.watch.Load() {
		l.late.Record(time.Duration(late))
	}
}

// paced calls f perSecond times a second from each of g goroutines until the end
// of the row, in steps of a millisecond. For the watched time it reports how often f was
// called, and the process's CPU.
func paced(run rows.Run, g, perSecond int, f func(worker, n int)) (calls int64, took, cpu time.Duration, gcs uint32) {
	var done atomic.Int64
	var end atomic.Bool
	var wg sync.WaitGroup
	began := time.Now()
	for worker := range g {
		wg.Go(func() {
			n := 0
			for !end.Load() {
				for target := int(time.Since(began).Seconds() * float64(perSecond)); n < target && !end.Load(); {
					for range min(target-n, 64) {
						f(worker, n)
						n++
						done.Add(1)
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	time.Sleep(time.Second)
	the.watch.Store(true)
	from, used, cycles, at := done.Load(), usage.CPU(), gcCycles(), time.Now()
	time.Sleep(run.For)
	calls, took, cpu, gcs = done.Load()-from, time.Since(at), usage.CPU()-used, gcCycles()-cycles
	the.watch.Store(false)
	end.Store(true)
	wg.Wait()
	return calls, took, cpu, gcs
}

// measure of a row that is paced.
func (o *owner) result(run rows.Run, calls int64, took, cpu time.Duration, gcs uint32) result {
	d := o.late.late.Distribution()
	return result{
		Run: run, CPUPerFire: float64(cpu.Nanoseconds()) / float64(max(calls, 1)), FiresPerS: float64(calls) / took.Seconds(),
		P50: d.P50.Seconds() * 1e3, P99: d.P99.Seconds() * 1e3, Max: d.Max.Seconds() * 1e3,
		Early: int(o.late.early.Load()), Fired: int64(d.Count), GCs: gcs,
	}
}

// measureConnections postpones n idle timeouts of 30 s a million times a second, from 8
// goroutines with connections of their own. None is due.
func measureConnections(run rows.Run) result {
	const g, perSecond, idle = 8, 1_000_000, 30 * time.Second
	o := newOwner(run.N, slots)
	k := keep(run.Impl, o)
	for _, i := range rand.Perm(run.N) {
		k.arm(i, o.promise(i, idle))
	}
	runtime.GC()
	own := run.N / g
	calls, took, cpu, gcs := paced(run, g, perSecond/g, func(worker, _ int) {
		i := worker*own + rand.IntN(own)
		k.move(i, o.promise(i, idle))
	})
	k.close()
	return o.result(run, calls, took, cpu, gcs)
}

// measureRequests arms a time limit of a second for each of n requests a second,
// from 4 goroutines, and stops 99 of 100 within 10 ms. One in a hundred fires.
func measureRequests(run rows.Run) result {
	const g, limit = 4, time.Second
	const records = 1 << 16 // of each goroutine: each is used again after 2 s or more
	o := newOwner(g*records, slots)
	k := keep(run.Impl, o)
	perSecond := run.N / g
	behind := perSecond / 200 // requests end 5 ms after they began, 10 with a sleep of paced
	calls, took, cpu, gcs := paced(run, g, perSecond, func(worker, n int) {
		i := worker*records + n%records
		k.arm(i, o.promise(i, limit))
		if n >= behind && (n-behind)%100 != 0 {
			k.stop(worker*records + (n-behind)%records)
		}
	})
	k.close()
	return o.result(run, calls, took, cpu, gcs)
}

// measureRetries has n jobs. Every job tries again after a pause, from the callback. The pause
// is 10 ms, then twice as long each time up to a second, with a quarter of jitter.
func measureRetries(run rows.Run) result {
	n := run.N
	o := newOwner(n, slots)
	pauses := make([]time.Duration, n)
	var stopped atomic.Bool
	var tries atomic.Int64
	k := keep(run.Impl, o)
	o.fire = func(i int) {
		if stopped.Load() {
			return
		}
		tries.Add(1)
		pause := pauses[i]
		if pause *= 2; pause > time.Second {
			pause = 10 * time.Millisecond
		}
		pauses[i] = pause
		k.arm(i, o.promise(i, pause+rand.N(pause/4)))
	}
	for _, i := range rand.Perm(n) {
		pauses[i] = 10 * time.Millisecond << rand.IntN(7)
		k.arm(i, o.promise(i, time.Second+rand.N(time.Second)))
	}
	time.Sleep(3 * time.Second)
	the.watch.Store(true)
	from, used, cycles, at := tries.Load(), usage.CPU(), gcCycles(), time.Now()
	time.Sleep(run.For)
	calls, took, cpu, gcs := tries.Load()-from, time.Since(at), usage.CPU()-used, gcCycles()-cycles
	the.watch.Store(false)
	stopped.Store(true)
	k.close()
	return o.result(run, calls, took, cpu, gcs)
}

// measureFar has n timers that are an hour away or more, a ring of 1<<20 slots
// where there is a ring, and one timer that fires ten times a second.
func measureFar(run rows.Run) result {
	const far = 1 << 20
	o := newOwner(run.N+1, far)
	k := keep(run.Impl, o)
	near := run.N
	var stopped atomic.Bool
	o.fire = func(i int) {
		if i == near && !stopped.Load() {
			k.arm(near, o.promise(near, 100*time.Millisecond))
		}
	}
	for _, i := range rand.Perm(run.N) {
		k.arm(i, o.promise(i, time.Hour+rand.N(time.Hour)))
	}
	k.arm(near, o.promise(near, 100*time.Millisecond))
	for range 3 {
		runtime.GC()
	}
	time.Sleep(time.Second)
	the.watch.Store(true)
	used, at := usage.CPU(), time.Now()
	time.Sleep(run.For)
	cpu, took := usage.CPU()-used, time.Since(at)
	the.watch.Store(false)
	stopped.Store(true)
	r := o.result(run, 0, took, cpu, 0)
	r.CPUPerFire, r.CPU, r.RSS = 0, float64(cpu.Microseconds())/1e3, float64(usage.RSS())/1e6
	k.close()
	return r
}
