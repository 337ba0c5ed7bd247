package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
)

// turn is one call of lock by one goroutine.
type turn struct {
	Who   int
	Began int64 // wall clock, ns; all processes are on one machine
	Taken int64 // when lock returned; 0 if it still waited at the end
	Left  int64 // before unlock was called
}

// measureOneKey lets goroutines of one process contend for one key.
func measureOneKey(run rows.Run) result {
	l := newLocker(run.Impl, *pause)
	defer l.close()
	warm(l)
	start := time.Now()
	turns, errs := contend(l, prefix+"one", 0, run.N, start.Add(warmUp+run.For))
	return summary(run, turns, errs, run.N, start.Add(warmUp))
}

// warm makes the client dial and the server know its scripts.
func warm(l locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for i := range 3 {
		held := must(l.lock(ctx, prefix+"warm "+strconv.Itoa(i)))
		if err := held.unlock(ctx); err != nil {
			panic(err)
		}
	}
}

// contend lets goroutines, numbered from first, lock and unlock one key until end.
func contend(l locker, key string, first, goroutines int, end time.Time) (turns []turn, errs int) {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			var mine []turn
			failures := 0
			for ctx.Err() == nil {
				t := turn{Who: first + g, Began: time.Now().UnixNano()}
				held, err := l.lock(ctx, key)
				if err == nil {
					t.Taken = time.Now().UnixNano()
					t.Left = time.Now().UnixNano()
					err = held.unlock(context.Background())
				} else if ctx.Err() != nil {
					err = nil
				}
				if err != nil {
					fail(err, &failures)
				}
				mine = append(mine, t)
			}
			mu.Lock()
			defer mu.Unlock()
			turns = append(turns, mine...)
			errs += failures
		})
	}
	wg.Wait()
	return turns, errs
}

// summary counts the turns in the window, which opens at open and lasts for run.For.
func summary(run rows.Run, turns []turn, errs, goroutines int, open time.Time) result {
	r := result{Run: run, Errors: errs}
	end := open.Add(run.For)
	var waits []time.Duration
	took := make([]float64, goroutines)
	turns = slices.DeleteFunc(turns, func(t turn) bool {
		switch {
		case t.Taken == 0 || t.Taken > end.UnixNano():
			waits = append(waits, max(0, time.Duration(end.UnixNano()-max(t.Began, 0))))
			return true
		case t.Taken < open.UnixNano():
			return true
		}
		waits = append(waits, time.Duration(t.Taken-t.Began))
		took[t.Who]++
		return false
	})
	slices.SortFunc(turns, func(a, b turn) int { return int(a.Taken - b.Taken) })
	changes := 0
	for i := 1; i < len(turns); i++ {
		if turns[i].Who != turns[i-1].Who {
			changes++
		}
		if turns[i].Taken < turns[i-1].Left {
			r.Overlaps++
		}
	}
	slices.Sort(waits)
	r.PerS, r.Changes = float64(len(turns))/run.For.Seconds(), float64(changes)/run.For.Seconds()
	r.WaitP99, r.WaitMax = millis(waits[len(waits)*99/100]), millis(waits[len(waits)-1])
	r.Least, r.Most = slices.Min(took), slices.Max(took)
	return r
}

// goroutines of each process of measureProcesses.
const goroutines = 8

// report is what a worker process writes in the end.
type report struct {
	Turns []turn
	Errs  int
}

// measureProcesses lets processes contend for one key.
func measureProcesses(run rows.Run) result {
	self := must(os.Executable())
	var pipes []io.WriteCloser
	var outs []*bufio.Reader
	var cmds []*exec.Cmd
	for p := range run.N {
		cmd := exec.Command(self, "worker", run.Impl, *addr, prefix+"many", strconv.Itoa(p*goroutines), pause.String())
		cmd.Stderr = os.Stderr
		pipes, outs, cmds = append(pipes, must(cmd.StdinPipe())), append(outs, bufio.NewReader(must(cmd.StdoutPipe()))), append(cmds, cmd)
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	for _, out := range outs {
		must(out.ReadString('\n')) // it is ready
	}
	start := time.Now().Round(0).Add(50 * time.Millisecond)
	for _, pipe := range pipes {
		must(fmt.Fprintln(pipe, start.UnixNano(), start.Add(warmUp+run.For).UnixNano()))
	}
	var all report
	for p, out := range outs {
		var part report
		if err := gob.NewDecoder(out).Decode(&part); err != nil {
			panic(err)
		}
		if err := cmds[p].Wait(); err != nil {
			panic(err)
		}
		all.Turns, all.Errs = append(all.Turns, part.Turns...), all.Errs+part.Errs
	}
	return summary(run, all.Turns, all.Errs, run.N*goroutines, start.Add(warmUp))
}

// work is the body of a worker process: impl, address, key, number of its first goroutine, pause.
func work(args []string) {
	*addr = args[1]
	first := must(strconv.Atoi(args[3]))
	l := newLocker(args[0], must(time.ParseDuration(args[4])))
	defer l.close()
	warm(l)
	fmt.Println("ready")
	var start, end int64
	must(fmt.Scanln(&start, &end))
	time.Sleep(time.Until(time.Unix(0, start)))
	var r report
	r.Turns, r.Errs = contend(l, args[2], first, goroutines, time.Unix(0, end))
	if err := gob.NewEncoder(os.Stdout).Encode(r); err != nil {
		panic(err)
	}
}
