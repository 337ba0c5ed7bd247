package main

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
	"github.com/wheellock/wheellock/bench/peers/internal/usage"
)

// measureRearm watches n timers that come every second, at phases spread evenly at random. The window
// opens two periods after the last was armed.
func measureRearm(run rows.Run) result {
	n := run.N
	empty := usage.RSS()
	the.period = time.Second
	lead := time.Duration(n) * 3 * time.Microsecond // to arm them in
	it := arm(run.Impl, n, func() time.Duration { return lead + rand.N(the.period) })
	time.Sleep(lead + 2*the.period - time.Duration(the.now()))

	gcs, cpu, began := gcCycles(), usage.CPU(), time.Now()
	the.watch.Store(true)
	time.Sleep(run.For)
	the.watch.Store(false)
	took := time.Since(began)
	r := result{Run: run, GCs: gcCycles() - gcs}
	cpu = usage.CPU() - cpu
	r.RSS = float64(usage.RSS()-empty-int64(n)*noteBytes) / 1e6
	it.close()
	time.Sleep(100 * time.Millisecond) // callbacks under way write their notes

	late := make([]int32, n)
	fires, worst := 0, int32(0)
	for i := range n {
		note := it.notes()(i)
		fires += int(note.fires)
		r.Early += int(note.early)
		worst = max(worst, note.worst)
		late[i] = note.last
	}
	slices.Sort(late)
	r.CPUPerFire = float64(cpu.Nanoseconds()) / float64(fires)
	r.FiresPerS = float64(fires) / took.Seconds()
	r.P50 = float64(late[n/2]) / 1e3
	r.P99 = float64(late[n*99/100]) / 1e3
	r.Max = float64(worst) / 1e3
	return r
}

// measureBurst fires n timers due at one instant: the time from the first callback to the last.
func measureBurst(run rows.Run) result {
	n := run.N
	the.left.Store(int64(n))
	at := time.Duration(n)*10*time.Microsecond + time.Second // all are armed before, also on a machine with other work
	it := arm(run.Impl, n, func() time.Duration { return at })
	runtime.GC()
	peak := 0
	for {
		select {
		case last := <-the.done:
			r := result{Run: run, NsPerTimer: float64(last-the.first.Load()) / float64(n), Goroutines: peak}
			for i := range n {
				r.Early += int(it.notes()(i).early)
			}
			it.close()
			return r
		case <-time.After(5 * time.Millisecond):
			peak = max(peak, runtime.NumGoroutine())
		}
	}
}

// measureHold measures the heap of n pending timers beside the notes, and one collection.
func measureHold(run rows.Run) result {
	n := run.N
	before := heapBytes()
	the.period = time.Second
	it := arm(run.Impl, n, func() time.Duration { return time.Duration(the.now()) + 10*time.Minute + rand.N(10*time.Minute) })
	r := result{Run: run, Bytes: float64(heapBytes()-before)/float64(n) - noteBytes}
	const cycles = 10
	cpu := gcSeconds()
	for range cycles {
		runtime.GC()
	}
	r.GCCPU = (gcSeconds() - cpu) * 1e3 / cycles
	it.close()
	return r
}

// measureIdle watches n far timers.
func measureIdle(run rows.Run) result {
	n := run.N
	the.period = time.Second
	it := arm(run.Impl, n, func() time.Duration { return time.Hour + rand.N(time.Hour) })
	for range 3 {
		runtime.GC()
	}
	time.Sleep(time.Second) // sweepers and scavenger too
	cpu, wakeUps := usage.CPU(), it.wakeUps()
	time.Sleep(run.For)
	r := result{Run: run, CPU: float64((usage.CPU() - cpu).Microseconds()) / 1e3, WakeUps: it.wakeUps() - wakeUps}
	it.close()
	return r
}

func heapBytes() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func gcCycles() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

func gcSeconds() float64 {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64()
}
