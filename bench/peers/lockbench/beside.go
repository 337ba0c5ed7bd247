package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
	"github.com/wheellock/wheellock/integration/stranger"
)

// gophers is how many goroutines all processes of measureBeside have together, and threads how
// many the stranger has.
const (
	gophers = 64
	threads = 16
)

// patience is what a thread of the stranger gives tryLock.
const patience = 5 * time.Second

// measureBeside lets processes contend for one key with a stranger, a client as Redisson is one;
// or without it, or the stranger alone.
func measureBeside(run rows.Run) result {
	var ours []*besideProcess
	if run.Impl != "stranger-alone" {
		for p := range run.N {
			ours = append(ours, startBeside(p, gophers/run.N))
		}
	}
	for _, p := range ours {
		must(p.out.ReadString('\n')) // it is ready
	}
	start := time.Now().Round(0).Add(100 * time.Millisecond)
	open, end := start.Add(warmUp), start.Add(warmUp+run.For)
	for _, p := range ours {
		must(fmt.Fprintln(p.in, start.UnixNano(), end.UnixNano()))
	}
	var s stranger.Counts
	if run.Impl != "alone" {
		s = runStranger(prefix+"beside", open, end)
	}
	var all report
	for _, p := range ours {
		var part report
		if err := gob.NewDecoder(p.out).Decode(&part); err != nil {
			panic(err)
		}
		if err := p.cmd.Wait(); err != nil {
			panic(err)
		}
		all.Turns, all.Errs = append(all.Turns, part.Turns...), all.Errs+part.Errs
	}
	r := result{Run: run}
	if len(ours) > 0 {
		r = summary(run, all.Turns, all.Errs, gophers, open)
	}
	r.PerS += float64(s.Turns) / run.For.Seconds()
	r.Share = percent(s.Turns, int(r.PerS*run.For.Seconds()))
	r.Refused = percent(s.Refused, s.Refused+s.Turns)
	r.Won = percent(s.Won, s.Releases)
	return r
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// besideProcess is a process of wheellock's.
type besideProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startBeside(number, goroutines int) *besideProcess {
	cmd := exec.Command(must(os.Executable()), "worker-beside", *addr, prefix+"beside",
		strconv.Itoa(number*goroutines), strconv.Itoa(goroutines), hold.String())
	cmd.Stderr = os.Stderr
	p := &besideProcess{cmd, must(cmd.StdinPipe()), bufio.NewReader(must(cmd.StdoutPipe()))}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return p
}

// workBeside is the body of such a process: address, key, number of its first goroutine, how many,
// for how long each holds the lock.
func workBeside(args []string) {
	*addr = args[0]
	first, n, held := must(strconv.Atoi(args[2])), must(strconv.Atoi(args[3])), must(time.ParseDuration(args[4]))
	l := newLocker("wheellock", 0)
	defer l.close()
	warm(l)
	fmt.Println("ready")
	var start, end int64
	must(fmt.Scanln(&start, &end))
	time.Sleep(time.Until(time.Unix(0, start)))
	var r report
	r.Turns, r.Errs = contend(holding{l, held}, args[1], first, n, time.Unix(0, end))
	if err := gob.NewEncoder(os.Stdout).Encode(r); err != nil {
		panic(err)
	}
}

// holding is a locker whose locks are held for a while.
type holding struct {
	locker
	held time.Duration
}

func (h holding) lock(ctx context.Context, name string) (unlocker, error) {
	u, err := h.locker.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return holdingHeld{u, h.held}, nil
}

type holdingHeld struct {
	unlocker
	held time.Duration
}

func (h holdingHeld) unlock(ctx context.Context) error {
	time.Sleep(h.held)
	return h.unlocker.unlock(ctx)
}

// runStranger lets the threads of a stranger contend for key until end. It counts only acquisitions
// after open.
func runStranger(key string, open, end time.Time) stranger.Counts {
	s := must(stranger.New(stranger.Config{
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", *addr) },
		Key:  key, Threads: threads, Lease: lease, Wait: patience, Hold: *hold, Again: *again,
		Delay: func() time.Duration { return time.Millisecond + mathrand.N(time.Millisecond) },
	}))
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	var before stranger.Counts
	time.AfterFunc(time.Until(open), func() { before = s.Counts() })
	if err := s.Run(ctx); err != nil {
		panic(err)
	}
	defer s.Close()
	return s.Counts().Sub(before)
}
