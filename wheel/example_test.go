package wheel_test

import (
	"fmt"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// session is a record that expires unless it is touched. Its timer is a field, so that a million
// of them need no allocation beside the records.
type session struct {
	name    string
	expiry  wheel.Timer
	expired chan string
}

func (s *session) Fire(*wheel.Timer) { s.expired <- s.name }

func Example() {
	w, err := wheel.New(wheel.Config{Tick: time.Millisecond})
	if err != nil {
		panic(err)
	}
	expired := make(chan string, 2)
	a := &session{name: "a", expired: expired}
	b := &session{name: "b", expired: expired}
	_ = w.Schedule(&a.expiry, 10*time.Millisecond, a)
	_ = w.Schedule(&b.expiry, time.Hour, b)
	fmt.Println(<-expired, "expired,", w.Len(), "left")

	pending, _ := b.expiry.Reset(2 * time.Hour) // touched
	fmt.Println("b was pending:", pending)
	fmt.Println("returned by Stop:", len(w.Stop()))
	<-w.Done()
	// Output:
	// a expired, 1 left
	// b was pending: true
	// returned by Stop: 1
}

func ExampleWheel_AfterFunc() {
	w, _ := wheel.New(wheel.Config{Tick: time.Millisecond})
	done := make(chan struct{})
	_, _ = w.AfterFunc(5*time.Millisecond, func() { close(done) })
	timer, _ := w.AfterFunc(time.Hour, func() { fmt.Println("never") })
	<-done
	fmt.Println(timer.State(), timer.Stop(), timer.State(), timer.Stop())
	w.Stop()
	// Output: pending true stopped false
}

func ExampleTimer_Next() {
	w, _ := wheel.New(wheel.Config{Tick: time.Millisecond})
	beats := make(chan int)
	p := &pulse{period: 5 * time.Millisecond, beats: beats}
	_ = w.Schedule(&p.timer, p.period, p)
	fmt.Println(<-beats, <-beats, <-beats)
	w.Stop()
	<-w.Done()
	// Output: 1 2 3
}

type pulse struct {
	timer  wheel.Timer
	period time.Duration
	n      int
	beats  chan int
}

func (p *pulse) Fire(t *wheel.Timer) {
	p.n++
	if p.n < 3 {
		_ = t.Next(p.period) // from the deadline, not from now: it does not drift
	}
	p.beats <- p.n
}

func ExampleWheel_Group() {
	w, _ := wheel.New(wheel.Config{Tick: time.Millisecond})
	done := make(chan struct{})
	total := 0
	g := w.Group(func(b *wheel.Batch) {
		for _, t := range b.Timers() {
			total += t.Task().(*invoice).owed
		}
		if err := b.NextAll(b.Timers(), time.Hour); err != nil {
			panic(err)
		}
		if w.Len() == 3 && total == 6 {
			close(done)
		}
	})
	for i := 1; i <= 3; i++ {
		a := &invoice{owed: i}
		_ = g.Schedule(&a.timer, 10*time.Millisecond, a)
	}
	<-done
	fmt.Println("collected", total, "and armed", len(w.Stop()), "again")
	// Output: collected 6 and armed 3 again
}

type invoice struct {
	timer wheel.Timer
	owed  int
}

func (*invoice) Fire(*wheel.Timer) {} // its group's function does the work
