package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
	"github.com/wheellock/wheellock/bench/peers/internal/usage"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/keeper"
)

// measureKept waits for names that another process holds and renews. It waits with a Keeper, or with the
// loop that a program without Keeper would have: a goroutine for each name. It measures what waiting costs,
// over at least two leases. Then the other process releases all names, and measureKept measures how long it
// takes until all are taken.
func measureKept(run rows.Run) result {
	ctx := context.Background()
	holder := exec.Command(must(os.Executable()), "worker-kept", *addr, prefix, strconv.Itoa(run.N))
	holder.Stderr = os.Stderr
	in, out := must(holder.StdinPipe()), bufio.NewReader(must(holder.StdoutPipe()))
	if err := holder.Start(); err != nil {
		panic(err)
	}
	must(out.ReadString('\n')) // it holds all

	c := newLocker("wheellock", 0).(ours).c
	var taken atomic.Int64
	all := make(chan struct{})
	take := func() {
		if taken.Add(1) == int64(run.N) {
			close(all)
		}
	}
	var end func()
	if run.Impl == "keeper" {
		end = keep(c, run.N, take)
	} else {
		end = loop(c, run.N, take)
	}
	time.Sleep(2 * lease) // until the load is even

	before, cpu := must(spentBy(*addr)), usage.CPU()
	watched := max(run.For, 2*lease)
	time.Sleep(watched)
	after, used := must(spentBy(*addr)), usage.CPU()-cpu
	r := result{Run: run, Core: 100 * used.Seconds() / watched.Seconds(), RSS: float64(usage.RSS()) / (1 << 20)}
	r.RedisCore = 100 * (after.cpu - before.cpu).Seconds() / watched.Seconds()
	r.Routines = runtime.NumGoroutine()
	r.Errors = int(taken.Load()) // names that were taken while the other process held them

	began := time.Now()
	must(fmt.Fprintln(in, "release"))
	<-all
	r.Taken = time.Since(began).Seconds()
	end()
	if err := holder.Wait(); err != nil {
		panic(err)
	}
	if err := c.Close(ctx); err != nil {
		panic(err)
	}
	return r
}

// workKept is the body of the other process: address, prefix, number of names.
func workKept(args []string) {
	*addr, prefix = args[0], args[1]
	ctx := context.Background()
	c := newLocker("wheellock", 0).(ours).c
	var helds []*lock.Held
	for _, try := range c.TryLockMany(ctx, keptNames(must(strconv.Atoi(args[2])))) {
		helds = append(helds, must(try.Held, try.Err))
	}
	fmt.Println("all held")
	must(fmt.Scanln(new(string)))
	for _, err := range lock.UnlockMany(ctx, helds) {
		if err != nil {
			panic(err)
		}
	}
	if err := c.Close(ctx); err != nil {
		panic(err)
	}
}

func keptNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}

// keep waits for n names with a Keeper. end ends that.
func keep(c *lock.Client, n int, taken func()) (end func()) {
	k := must(keeper.New(c, keeper.Config{Taken: func(context.Context, string, *lock.Held) { taken() }}))
	if err := k.Want(keptNames(n)...); err != nil {
		panic(err)
	}
	return func() {
		if err := k.Close(context.Background()); err != nil {
			panic(err)
		}
	}
}

// loop is keep without a Keeper.
func loop(c *lock.Client, n int, taken func()) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, name := range keptNames(n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				held, err := c.Mutex(name).Lock(ctx)
				if err != nil {
					continue
				}
				taken()
				select {
				case <-held.Done():
				case <-ctx.Done():
				}
				_ = held.Unlock(context.Background())
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}
