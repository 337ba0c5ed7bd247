package peers

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/RussellLuo/timingwheel"
	antlabs "github.com/antlabs/timer"
	"github.com/zeromicro/go-zero/core/collection"

	"github.com/wheellock/wheellock/bench/peers/internal/usage"
	"github.com/wheellock/wheellock/wheel"
)

const (
	tick  = 10 * time.Millisecond
	slots = 1024
)

// timers are the implementation under test: n records that can be armed, stopped, and moved.
type timers interface {
	arm(i int, d time.Duration)
	stop(i int)
	reset(i int, d time.Duration) // stop and arm of those that have nothing better
	close()
}

var impls = []struct {
	name string
	make func(n int) timers
}{
	{"wheel", newOurs},
	{"afterfunc", newAfterFunc},
	{"timer-reset", newReused},
	{"timingwheel", newTimingWheel},
	{"gozero", newGoZero},
	{"antlabs", newAntlabs},
}

type ours struct {
	w  *wheel.Wheel
	rs []oursRecord
}

type oursRecord struct {
	timer wheel.Timer
	fired int64
}

func (r *oursRecord) Fire(*wheel.Timer) { r.fired++ }

func newOurs(n int) timers {
	w, err := wheel.New(wheel.Config{Tick: tick, Slots: slots})
	if err != nil {
		panic(err)
	}
	return &ours{w, make([]oursRecord, n)}
}

func (o *ours) arm(i int, d time.Duration)   { _ = o.w.Schedule(&o.rs[i].timer, d, &o.rs[i]) }
func (o *ours) stop(i int)                   { o.rs[i].timer.Stop() }
func (o *ours) reset(i int, d time.Duration) { _, _ = o.rs[i].timer.Reset(d) }
func (o *ours) close()                       { o.w.Stop(); <-o.w.Done() }

// afterFunc makes a new time.Timer for each arming.
type afterFunc struct{ rs []goRecord }

type goRecord struct {
	timer *time.Timer
	fired int64
}

func newAfterFunc(n int) timers { return &afterFunc{make([]goRecord, n)} }

func (a *afterFunc) arm(i int, d time.Duration) {
	r := &a.rs[i]
	r.timer = time.AfterFunc(d, func() { r.fired++ })
}
func (a *afterFunc) stop(i int)                   { a.rs[i].timer.Stop() }
func (a *afterFunc) reset(i int, d time.Duration) { a.rs[i].timer.Reset(d) }
func (a *afterFunc) close() {
	for i := range a.rs {
		if a.rs[i].timer != nil {
			a.rs[i].timer.Stop()
		}
	}
}

// reused arms a record's one time.Timer by Reset.
type reused struct{ afterFunc }

func newReused(n int) timers {
	r := &reused{afterFunc{make([]goRecord, n)}}
	for i := range r.rs {
		r.afterFunc.arm(i, time.Hour)
		r.rs[i].timer.Stop()
	}
	return r
}

func (r *reused) arm(i int, d time.Duration) { r.rs[i].timer.Reset(d) }

type timingWheel struct {
	w  *timingwheel.TimingWheel
	rs []struct {
		timer *timingwheel.Timer
		fired int64
	}
}

func newTimingWheel(n int) timers {
	t := &timingWheel{w: timingwheel.NewTimingWheel(tick, slots)}
	t.rs = make([]struct {
		timer *timingwheel.Timer
		fired int64
	}, n)
	t.w.Start()
	return t
}

func (t *timingWheel) arm(i int, d time.Duration) {
	r := &t.rs[i]
	r.timer = t.w.AfterFunc(d, func() { r.fired++ })
}
func (t *timingWheel) stop(i int) { t.rs[i].timer.Stop() }
func (t *timingWheel) reset(i int, d time.Duration) {
	t.stop(i)
	t.arm(i, d)
}
func (t *timingWheel) close() { t.w.Stop() }

// goZero keys its timers: the key is the record.
type goZero struct {
	w  *collection.TimingWheel
	rs []struct{ fired int64 }
}

func newGoZero(n int) timers {
	g := &goZero{rs: make([]struct{ fired int64 }, n)}
	w, err := collection.NewTimingWheel(tick, slots, func(_, value any) { value.(*struct{ fired int64 }).fired++ })
	if err != nil {
		panic(err)
	}
	g.w = w
	return g
}

func (g *goZero) arm(i int, d time.Duration)   { _ = g.w.SetTimer(i, &g.rs[i], d) }
func (g *goZero) stop(i int)                   { _ = g.w.RemoveTimer(i) }
func (g *goZero) reset(i int, d time.Duration) { _ = g.w.MoveTimer(i, d) }
func (g *goZero) close()                       { g.w.Stop() }

type ant struct {
	w  antlabs.Timer
	rs []struct {
		timer antlabs.TimeNoder
		fired int64
	}
}

func newAntlabs(n int) timers {
	a := &ant{w: antlabs.NewTimer(antlabs.WithTimeWheel())}
	a.rs = make([]struct {
		timer antlabs.TimeNoder
		fired int64
	}, n)
	go a.w.Run()
	return a
}

func (a *ant) arm(i int, d time.Duration) {
	r := &a.rs[i]
	r.timer = a.w.AfterFunc(d, func() { r.fired++ })
}
func (a *ant) stop(i int) { a.rs[i].timer.Stop() }

// reset does without antlabs' Reset: see TestResetOfAntlabsWaitsForItself.
func (a *ant) reset(i int, d time.Duration) {
	a.stop(i)
	a.arm(i, d)
}
func (a *ant) close() { a.w.Stop() }

func order(n int, random bool) []int32 {
	o := make([]int32, n)
	for i := range o {
		o[i] = int32(i)
	}
	if random {
		rand.Shuffle(n, func(i, j int) { o[i], o[j] = o[j], o[i] })
	}
	return o
}

// delays are beyond the end of any benchmark.
func delays(common bool) *[1024]time.Duration {
	var ds [1024]time.Duration
	for i := range ds {
		ds[i] = 10 * time.Minute
		if !common {
			ds[i] += rand.N(time.Minute)
		}
	}
	return &ds
}

// BenchmarkScheduleStop arms a record and stops it, one after the other in the order named, while as
// many others are pending.
func BenchmarkScheduleStop(b *testing.B) {
	for _, pending := range []int{10_000, 100_000, 1_000_000} {
		for _, random := range []bool{false, true} {
			if random && pending < 1_000_000 {
				continue
			}
			o, ds := order(pending, random), delays(false)
			name := map[bool]string{false: "alloc", true: "random"}[random]
			for _, impl := range impls {
				b.Run(fmt.Sprintf("pending=%d/order=%s/impl=%s", pending, name, impl.name), func(b *testing.B) {
					ts := impl.make(2 * pending)
					for _, i := range order(pending, true) {
						ts.arm(pending+int(i), time.Hour+rand.N(time.Minute))
					}
					runtime.GC()
					b.ReportAllocs()
					n, cpu := 0, usage.CPU()
					for b.Loop() {
						i := int(o[n%pending])
						ts.arm(i, ds[n%1024])
						ts.stop(i)
						n++
					}
					report(b, cpu)
					ts.close()
					runtime.GC()
				})
			}
		}
	}
}

// BenchmarkScheduleStopParallel is the same from several goroutines, each with records of its own.
func BenchmarkScheduleStopParallel(b *testing.B) {
	const pending, own = 10_000, 1024
	for _, g := range []int{2, 16} {
		for _, common := range []bool{false, true} {
			ds := delays(common)
			name := map[bool]string{false: "spread", true: "common"}[common]
			for _, impl := range impls {
				b.Run(fmt.Sprintf("g=%d/delay=%s/impl=%s", g, name, impl.name), func(b *testing.B) {
					ts := impl.make(g*own + pending)
					for i := range pending {
						ts.arm(g*own+i, time.Hour+rand.N(time.Minute))
					}
					runtime.GC()
					b.ReportAllocs()
					b.ResetTimer()
					cpu := usage.CPU()
					var wg sync.WaitGroup
					for w := range g {
						wg.Go(func() {
							for n := range b.N/g + 1 {
								i := w*own + n%own
								ts.arm(i, ds[n%1024])
								ts.stop(i)
							}
						})
					}
					wg.Wait()
					report(b, cpu)
					ts.close()
				})
			}
		}
	}
}

// BenchmarkStopAfterLong stops a record that was armed a million timers ago and arms it again. It does
// so in the order in which all were armed, which is the order in memory, or in a random order.
func BenchmarkStopAfterLong(b *testing.B) {
	for _, random := range []bool{false, true} {
		const count = 1_000_000
		o, ds := order(count, random), delays(false)
		name := map[bool]string{false: "alloc", true: "random"}[random]
		for _, impl := range impls {
			b.Run(fmt.Sprintf("pending=%d/order=%s/impl=%s", count, name, impl.name), func(b *testing.B) {
				ts := armed(impl.make, order(count, random), 10*time.Minute)
				defer discard(ts)
				b.ReportAllocs()
				n, cpu := 0, usage.CPU()
				for b.Loop() {
					i := int(o[n%count])
					ts.stop(i)
					ts.arm(i, ds[n%1024])
					n++
				}
				report(b, cpu)
			})
		}
	}
}

// BenchmarkResetLater moves pending timers to later, in random order.
func BenchmarkResetLater(b *testing.B) {
	for _, count := range []int{10_000, 1_000_000} {
		for _, g := range []int{1, 2} {
			benchmarkReset(b, count, g, 10*time.Minute, func(n int) time.Duration { return 20*time.Minute + time.Duration(n) })
		}
	}
}

// BenchmarkResetEarlier moves pending timers to earlier, each time, in random order.
func BenchmarkResetEarlier(b *testing.B) {
	for _, count := range []int{10_000, 1_000_000} {
		benchmarkReset(b, count, 1, 2*time.Hour, func(n int) time.Duration {
			return max(110*time.Minute-time.Duration(n)*5*time.Millisecond, 10*time.Minute)
		})
	}
}

// benchmarkReset moves timers that were armed at a minute from at on, from g goroutines.
func benchmarkReset(b *testing.B, count, g int, at time.Duration, to func(n int) time.Duration) {
	o := order(count, true)
	for _, impl := range impls {
		if impl.name == "afterfunc" { // the same as timer-reset
			continue
		}
		b.Run(fmt.Sprintf("timers=%d/g=%d/impl=%s", count, g, impl.name), func(b *testing.B) {
			ts := armed(impl.make, order(count, true), at)
			defer discard(ts)
			b.ReportAllocs()
			b.ResetTimer()
			cpu := usage.CPU()
			var wg sync.WaitGroup
			for w := range g {
				wg.Go(func() {
					k := w * count / g
					for n := range b.N/g + 1 {
						ts.reset(int(o[k]), to(n))
						if k++; k == count {
							k = 0
						}
					}
				})
			}
			wg.Wait()
			report(b, cpu)
		})
	}
}

// report reports the processor's time an operation has taken, the collector's included, since cpu was read. It is what to
// compare on a machine that others use, too.
func report(b *testing.B, cpu time.Duration) {
	cpu = usage.CPU() - cpu
	b.StopTimer()
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// armed arms a record for each number of an order, within a minute from at on.
func armed(newTimers func(n int) timers, o []int32, at time.Duration) timers {
	ts := newTimers(len(o))
	for _, i := range o {
		ts.arm(int(i), at+rand.N(time.Minute))
	}
	runtime.GC()
	return ts
}

// discard frees timers, so that the next benchmark does not pay for them.
func discard(ts timers) {
	ts.close()
	runtime.GC()
}
