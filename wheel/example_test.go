package wheel_test

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// session is a record that expires unless it is touched. Its timer is a field, so a million timers
// need no allocation beside the records.
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

	fmt.Println("b was pending:", b.expiry.Touch(2*time.Hour))
	fmt.Println("returned by Stop:", len(w.Stop()))
	<-w.Done()
	// Output:
	// a expired, 1 left
	// b was pending: true
	// returned by Stop: 1
}

// The callback tries three times, with a pause between two tries. It gets its timer. A variable that
// AfterFunc sets would be a data race, because the callback may run before AfterFunc returns.
func ExampleTaskFunc() {
	w, err := wheel.New(wheel.Config{Tick: time.Millisecond})
	if err != nil {
		panic(err)
	}
	defer w.Stop()
	done, tries := make(chan struct{}), 0
	try := func(t *wheel.Timer) {
		if tries++; tries < 3 {
			_, _ = t.Reset(10 * time.Millisecond)
			return
		}
		close(done)
	}
	if err := w.Schedule(new(wheel.Timer), 10*time.Millisecond, wheel.TaskFunc(try)); err != nil {
		panic(err)
	}
	<-done
	fmt.Println("tries:", tries)
	// Output: tries: 3
}

// idleConn closes its connection when nothing was read for a while.
type idleConn struct {
	net.Conn
	idle time.Duration
	quit wheel.Timer
}

// Fire runs on the wheel's goroutine. Close of a TCP connection does not block. Close of a TLS connection may block, so it
// would need a goroutine.
func (c *idleConn) Fire(*wheel.Timer) { _ = c.Close() }

func (c *idleConn) Close() error {
	c.quit.Stop() // so that the wheel keeps no reference to the connection
	return c.Conn.Close()
}

func (c *idleConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.quit.Touch(c.idle) // if the timer has fired, Touch does nothing, and the connection stays closed
	}
	return n, err
}

// The wheel closes connections that are idle. Where a goroutine reads each connection, as here, SetReadDeadline before
// each Read does as well, because system calls are nearly all of the work.
func ExampleTimer_Touch() {
	w, _ := wheel.New(wheel.Config{Tick: time.Millisecond})
	client, server := net.Pipe()
	c := &idleConn{Conn: server, idle: 50 * time.Millisecond}
	_ = w.Schedule(&c.quit, c.idle, c)
	go func() { _, _ = client.Write([]byte("hello")) }()
	buf := make([]byte, 16)
	n, _ := c.Read(buf)
	fmt.Printf("%s\n", buf[:n])
	_, err := c.Read(buf) // the client says nothing more
	fmt.Println(err)
	w.Stop()
	<-w.Done()
	// Output:
	// hello
	// io: read/write on closed pipe
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

// delivery is tried again with longer and longer pauses.
type delivery struct {
	retry wheel.Timer
	tries int
	send  func() error
	done  chan int
}

func (d *delivery) Fire(t *wheel.Timer) {
	d.tries++
	if d.send() == nil {
		d.done <- d.tries
		return
	}
	pause := min(time.Millisecond<<d.tries, time.Minute)
	if _, err := t.Reset(pause); err != nil {
		d.done <- -d.tries // the wheel was stopped
	}
}

// Retries with exponential back-off. Run a callback that takes long, such as sending, in an Executor.
func ExampleTimer_Reset() {
	w, _ := wheel.New(wheel.Config{Tick: time.Millisecond})
	failures := 3
	d := &delivery{done: make(chan int), send: func() error {
		if failures--; failures >= 0 {
			return errors.New("not yet")
		}
		return nil
	}}
	_ = w.Schedule(&d.retry, 0, d)
	fmt.Println("sent at try", <-d.done)
	w.Stop()
	// Output: sent at try 4
}

// A periodic task.
func ExampleWheel_Every() {
	w, _ := wheel.New(wheel.Config{Tick: time.Millisecond})
	calls, third := 0, make(chan struct{})
	timer, _ := w.Every(5*time.Millisecond, func(*wheel.Timer) {
		if calls++; calls == 3 {
			close(third)
		}
	})
	<-third
	timer.Stop()
	w.Stop()
	<-w.Done()
	fmt.Println("called three times:", calls >= 3)
	// Output: called three times: true
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
		_ = t.Next(p.period) // counts from the deadline and not from now, so it does not drift
	}
	p.beats <- p.n
}

// Very many timers that may be a little late share few wake-ups.
func ExampleWheel_ScheduleWithin() {
	w, _ := wheel.New(wheel.Config{Tick: 100 * time.Millisecond})
	ticks := map[time.Time]int{}
	task := wheel.TaskFunc(func(*wheel.Timer) {})
	for i := range 1000 {
		var t wheel.Timer
		d := time.Hour + time.Duration(i)*time.Second
		_ = w.ScheduleWithin(&t, d, 10*time.Minute, task)
		ticks[t.Deadline()]++
	}
	fmt.Println(len(ticks) <= 4)
	w.Stop()
	// Output: true
}

// Callbacks that may block run in goroutines of their own, at most four at once.
func ExampleConfig_executor() {
	slots := make(chan struct{}, 4)
	w, _ := wheel.New(wheel.Config{
		Tick: time.Millisecond,
		Executor: func(run func()) error {
			select {
			case slots <- struct{}{}:
				go func() {
					defer func() { <-slots }()
					run()
				}()
				return nil
			default:
				return errors.New("too many at once") // goes to OnError
			}
		},
		OnError: func(err *wheel.CallbackError) { fmt.Println(err) },
	})
	done := make(chan struct{})
	_, _ = w.AfterFunc(0, func() {
		time.Sleep(10 * time.Millisecond) // other timers do not wait for it
		close(done)
	})
	<-done
	w.Stop()
	<-w.Done() // the goroutines have ended too
	fmt.Println("done")
	// Output: done
}

// Stop returns the timers that were pending, so that a service can finish or save their work.
func ExampleWheel_Stop() {
	w, _ := wheel.New(wheel.Config{})
	for _, name := range []string{"a", "b", "c"} {
		s := &session{name: name}
		_ = w.Schedule(&s.expiry, time.Hour, s)
	}
	names := map[string]bool{}
	for _, t := range w.Stop() {
		names[t.Task().(*session).name] = true
	}
	<-w.Done() // no callback runs any more
	fmt.Println(len(names), "were pending:", names)
	// Output: 3 were pending: map[a:true b:true c:true]
}
