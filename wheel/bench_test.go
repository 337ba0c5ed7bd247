package wheel_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// The records that the benchmarks keep timers in. Each fire writes to its own record.
type (
	wheelRecord struct {
		timer wheel.Timer
		fired int64
	}
	goRecord struct {
		timer *time.Timer
		fired int64
	}
)

func (r *wheelRecord) Fire(*wheel.Timer) { r.fired++ }

func newWheel(b *testing.B) *wheel.Wheel {
	w, err := wheel.New(wheel.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		w.Stop()
		<-w.Done()
	})
	return w
}

// indexOrder returns the indexes below n, shuffled unless in allocation order.
func indexOrder(n int, random bool) []int32 {
	o := make([]int32, n)
	for i := range o {
		o[i] = int32(i)
	}
	if random {
		rand.Shuffle(n, func(i, j int) { o[i], o[j] = o[j], o[i] })
	}
	return o
}

// farDelays returns delays spread over a minute that lie too far ahead for a benchmark to meet them.
func farDelays() *[1024]time.Duration {
	var ds [1024]time.Duration
	for i := range ds {
		ds[i] = 10*time.Minute + rand.N(time.Minute)
	}
	return &ds
}

func holdWheel(b *testing.B, w *wheel.Wheel, n int) {
	held := make([]wheelRecord, n)
	for _, i := range indexOrder(n, true) {
		if err := w.Schedule(&held[i].timer, time.Hour+rand.N(time.Minute), &held[i]); err != nil {
			b.Fatal(err)
		}
	}
}

func holdGo(b *testing.B, n int) {
	held := make([]goRecord, n)
	for _, i := range indexOrder(n, true) {
		r := &held[i]
		r.timer = time.AfterFunc(time.Hour+rand.N(time.Minute), func() { r.fired++ })
	}
	b.Cleanup(func() {
		for i := range held {
			held[i].timer.Stop()
		}
		runtime.GC()
	})
}

// BenchmarkScheduleStop arms a timer and stops it at once, while others are pending. There are as many
// records as pending timers. They are used in the named order.
func BenchmarkScheduleStop(b *testing.B) {
	for _, pending := range []int{10_000, 100_000, 1_000_000} {
		for _, random := range []bool{false, true} {
			if random != (pending == 1_000_000) && random {
				continue
			}
			name := "alloc"
			if random {
				name = "random"
			}
			o, ds := indexOrder(pending, random), farDelays()
			b.Run(fmt.Sprintf("impl=wheel/pending=%d/order=%s", pending, name), func(b *testing.B) {
				w := newWheel(b)
				holdWheel(b, w, pending)
				rs := make([]wheelRecord, pending)
				runtime.GC()
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					r := &rs[o[n%pending]]
					_ = w.Schedule(&r.timer, ds[n&1023], r)
					r.timer.Stop()
					n++
				}
			})
			b.Run(fmt.Sprintf("impl=afterfunc/pending=%d/order=%s", pending, name), func(b *testing.B) {
				holdGo(b, pending)
				rs := make([]goRecord, pending)
				runtime.GC()
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					r := &rs[o[n%pending]]
					r.timer = time.AfterFunc(ds[n&1023], func() { r.fired++ })
					r.timer.Stop()
					n++
				}
			})
			b.Run(fmt.Sprintf("impl=timer-reset/pending=%d/order=%s", pending, name), func(b *testing.B) {
				holdGo(b, pending)
				rs := make([]goRecord, pending)
				for i := range rs {
					r := &rs[i]
					r.timer = time.AfterFunc(time.Hour, func() { r.fired++ })
					r.timer.Stop()
				}
				runtime.GC()
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					r := &rs[o[n%pending]]
					r.timer.Reset(ds[n&1023])
					r.timer.Stop()
					n++
				}
			})
		}
	}
}

// runParallel runs f in g goroutines, each with its own range of n records, until the benchmark ends.
func runParallel(b *testing.B, g int, f func(worker, iterations int)) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range g {
		wg.Go(func() { f(i, b.N/g+1) })
	}
	wg.Wait()
}

// BenchmarkScheduleStopParallel does the same in several goroutines, with 10,000 pending timers.
func BenchmarkScheduleStopParallel(b *testing.B) {
	const pending, own = 10_000, 1024
	for _, g := range []int{2, 16} {
		for _, delay := range []string{"spread", "common"} {
			ds := farDelays()
			if delay == "common" {
				for i := range ds {
					ds[i] = 10 * time.Minute
				}
			}
			b.Run(fmt.Sprintf("impl=wheel/g=%d/delay=%s", g, delay), func(b *testing.B) {
				w := newWheel(b)
				holdWheel(b, w, pending)
				rs := make([][own]wheelRecord, g)
				runParallel(b, g, func(worker, iterations int) {
					rs := &rs[worker]
					for n := range iterations {
						r := &rs[n&(own-1)]
						_ = w.Schedule(&r.timer, ds[n&1023], r)
						r.timer.Stop()
					}
				})
			})
			b.Run(fmt.Sprintf("impl=afterfunc/g=%d/delay=%s", g, delay), func(b *testing.B) {
				holdGo(b, pending)
				rs := make([][own]goRecord, g)
				runParallel(b, g, func(worker, iterations int) {
					rs := &rs[worker]
					for n := range iterations {
						r := &rs[n&(own-1)]
						r.timer = time.AfterFunc(ds[n&1023], func() { r.fired++ })
						r.timer.Stop()
					}
				})
			})
			b.Run(fmt.Sprintf("impl=timer-reset/g=%d/delay=%s", g, delay), func(b *testing.B) {
				holdGo(b, pending)
				rs := make([][own]goRecord, g)
				for i := range rs {
					for j := range rs[i] {
						r := &rs[i][j]
						r.timer = time.AfterFunc(time.Hour, func() { r.fired++ })
						r.timer.Stop()
					}
				}
				runParallel(b, g, func(worker, iterations int) {
					rs := &rs[worker]
					for n := range iterations {
						r := &rs[n&(own-1)]
						r.timer.Reset(ds[n&1023])
						r.timer.Stop()
					}
				})
			})
		}
	}
}

// BenchmarkResetLater moves pending timers to later, in random order.
func BenchmarkResetLater(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		for _, g := range []int{1, 2} {
			o := indexOrder(n, true)
			b.Run(fmt.Sprintf("impl=wheel/timers=%d/g=%d", n, g), func(b *testing.B) {
				w := newWheel(b)
				rs := make([]wheelRecord, n)
				for i := range rs {
					_ = w.Schedule(&rs[i].timer, 10*time.Minute+rand.N(time.Minute), &rs[i])
				}
				runtime.GC()
				runParallel(b, g, func(worker, iterations int) {
					at := worker * n / g
					for i := range iterations {
						if at == n {
							at = 0
						}
						_, _ = rs[o[at]].timer.Reset(20*time.Minute + time.Duration(i))
						at++
					}
				})
			})
			b.Run(fmt.Sprintf("impl=timer-reset/timers=%d/g=%d", n, g), func(b *testing.B) {
				rs := make([]goRecord, n)
				for i := range rs {
					r := &rs[i]
					r.timer = time.AfterFunc(10*time.Minute+rand.N(time.Minute), func() { r.fired++ })
				}
				runtime.GC()
				runParallel(b, g, func(worker, iterations int) {
					at := worker * n / g
					for i := range iterations {
						if at == n {
							at = 0
						}
						rs[o[at]].timer.Reset(20*time.Minute + time.Duration(i))
						at++
					}
				})
				b.StopTimer()
				for i := range rs {
					rs[i].timer.Stop()
				}
				runtime.GC()
			})
		}
	}
}

// BenchmarkBurst fires a million timers that are due at one instant, armed in random memory order.
// It measures the time from the first callback to the last. A record of 64 bytes lies in one cache line, and a
// record of 56 bytes mostly in two.
func BenchmarkBurst(b *testing.B) {
	b.Run("impl=wheel/timers=1000000/record=64", func(b *testing.B) {
		benchmarkBurst(b, func(r *wideRecord) *burstRecord { return &r.burstRecord })
	})
	b.Run("impl=wheel/timers=1000000/record=56", func(b *testing.B) {
		benchmarkBurst(b, func(r *burstRecord) *burstRecord { return r })
	})
}

func benchmarkBurst[R any](b *testing.B, of func(*R) *burstRecord) {
	const n = 1_000_000
	o := indexOrder(n, true)
	var spent time.Duration
	for b.Loop() {
		w := newWheel(b)
		rs := make([]R, n)
		run := &burst{left: n, done: make(chan struct{})}
		at := time.Now().Add(400 * time.Millisecond)
		for _, i := range o {
			r := of(&rs[i])
			r.run = run
			_ = w.Schedule(&r.timer, time.Until(at), r)
		}
		<-run.done
		spent += run.last.Sub(run.first)
		w.Stop()
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/n, "ns/timer")
}

type burst struct {
	left        int
	first, last time.Time
	done        chan struct{}
}

type burstRecord struct {
	timer wheel.Timer
	fired int64
	run   *burst
}

type wideRecord struct {
	burstRecord
	_ [8]byte
}

func (r *burstRecord) Fire(*wheel.Timer) {
	r.fired++
	if r.run.first.IsZero() {
		r.run.first = time.Now()
	}
	if r.run.left--; r.run.left == 0 {
		r.run.last = time.Now()
		close(r.run.done)
	}
}

// BenchmarkHold holds a million pending timers, spread over ten minutes and armed in random order. It reports
// the bytes per timer without the caller's own record, and what one garbage collection costs.
func BenchmarkHold(b *testing.B) {
	const n = 1_000_000
	o := indexOrder(n, true)
	b.Run("impl=wheel/timers=1000000", func(b *testing.B) {
		w := newWheel(b)
		before := heapBytes()
		rs := make([]wheelRecord, n)
		for _, i := range o {
			_ = w.Schedule(&rs[i].timer, 10*time.Minute+rand.N(10*time.Minute), &rs[i])
		}
		measureHold(b, before, n)
		runtime.KeepAlive(rs)
	})
	b.Run("impl=afterfunc/timers=1000000", func(b *testing.B) {
		before := heapBytes()
		rs := make([]goRecord, n)
		for _, i := range o {
			r := &rs[i]
			r.timer = time.AfterFunc(10*time.Minute+rand.N(10*time.Minute), func() { r.fired++ })
		}
		measureHold(b, before, n)
		for i := range rs {
			rs[i].timer.Stop()
		}
	})
	b.Run("impl=none/timers=1000000", func(b *testing.B) {
		before := heapBytes()
		rs := make([]goRecord, n)
		measureHold(b, before, n)
		runtime.KeepAlive(rs)
	})
}

func measureHold(b *testing.B, before uint64, n int) {
	held := heapBytes() - before
	gc := gcCPU()
	b.ResetTimer()
	cycles := 0
	for b.Loop() {
		runtime.GC()
		cycles++
	}
	b.StopTimer()
	b.ReportMetric((gcCPU()-gc)*1e3/float64(cycles), "gc-cpu-ms/cycle")
	b.ReportMetric(float64(held)/float64(n)-8, "B/timer") // less the record's own counter
}

func heapBytes() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func gcCPU() float64 {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64()
}

// BenchmarkComeNear measures what it costs to file a timer anew that was more than a revolution away when it was armed, in
// random memory order. The driver pays this once per timer, unless the timer is stopped before.
func BenchmarkComeNear(b *testing.B) {
	const n, slots, tick, first = 1_000_000, 1024, int64(10 * time.Millisecond), 10 * 1024
	timers := make([]wheel.Timer, n)
	o, buf := indexOrder(n, true), make([]*wheel.Timer, 128)
	spent := time.Duration(0)
	for b.Loop() {
		clear(timers)
		r := wheel.NewRing(tick, slots)
		r.Add(&timers[o[0]], first*tick, 0)
		for _, i := range o[1:] {
			r.Add(&timers[i], (first+1+rand.Int64N(32))*tick, 0)
		}
		began := time.Now()
		for finished := false; !finished; {
			_, finished = r.Collect(first, buf)
		}
		spent += time.Since(began)
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/n, "ns/timer")
}

// BenchmarkNextOfManySlots measures how the driver finds the tick until which it sleeps, in a ring with very many
// slots in which nothing is due within a revolution.
func BenchmarkNextOfManySlots(b *testing.B) {
	const n, slots, tick = 500_000 / 16, 1 << 20, int64(10 * time.Millisecond)
	r := wheel.NewRing(tick, slots)
	far := make([]wheel.Timer, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range far {
		r.Add(&far[i], slots*tick*2+rng.Int64N(slots*tick*20), 0)
	}
	r.Collect(0, make([]*wheel.Timer, 16))
	r.Next()
	for b.Loop() {
		r.Next()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/next")
}
