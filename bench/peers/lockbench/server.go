package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
)

// spending is what Redis has used so far.
type spending struct {
	cpu     time.Duration // of its process, user and system
	scripts time.Duration // within the commands that the clients send
}

// spentBy asks Redis for its CPU time, and for the time that it spent in commands.
func spentBy(addr string) (s spending, err error) {
	c, err := redis.Dial("tcp", addr)
	if err != nil {
		return s, err
	}
	defer c.Close()
	text, err := redis.String(c.Do("INFO", "cpu"))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return s, err
			}
			s.cpu += time.Duration(seconds * 1e9)
		}
	}
	text, err = redis.String(c.Do("INFO", "commandstats"))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		_, rest, found := strings.Cut(rest, "usec=")
		if !found || !slices.Contains(commands, name) {
			continue
		}
		value, _, _ := strings.Cut(rest, ",")
		us, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return s, err
		}
		s.scripts += time.Duration(us) * time.Microsecond
	}
	return s, nil
}

// commands are the commands that the clients of the row send. The time of a script is in its EVALSHA. SET
// is sent by redsync and redislock alone, and no script of the row calls it.
var commands = []string{"cmdstat_evalsha", "cmdstat_set", "cmdstat_eval"}

// spent notes how much Redis has used per pair.
func (r *result) spent(before, after spending, pairs float64) {
	r.RedisCPU = us(after.cpu-before.cpu) / pairs
	r.Scripts = us(after.scripts-before.scripts) / pairs
}

// measureLone lets processes of one goroutine each lock and unlock keys of their own.
func measureLone(run rows.Run) result {
	const around = time.Second // in which the processes start and end
	self := must(os.Executable())
	results := make([]result, run.N)
	var wg sync.WaitGroup
	for i := range run.N {
		wg.Go(func() {
			cmd := exec.CommandContext(context.Background(), self, "-child", "pairs/"+run.Impl, "-n", "1",
				"-duration", (run.For + 2*around).String(), "-redis", *addr)
			cmd.Stderr = os.Stderr
			out := must(cmd.Output())
			if err := json.Unmarshal(out, &results[i]); err != nil {
				panic(fmt.Sprintf("%s: %v", out, err))
			}
		})
	}
	time.Sleep(around + warmUp)
	before := must(spentBy(*addr))
	time.Sleep(run.For)
	after := must(spentBy(*addr))
	wg.Wait()
	r := result{Run: run}
	for _, one := range results {
		r.PerS += one.PerS
		r.P50 += one.P50 / float64(run.N)
		r.P99 += one.P99 / float64(run.N)
		r.ClientCPU += one.ClientCPU / float64(run.N)
		r.Errors += one.Errors
	}
	r.spent(before, after, r.PerS*run.For.Seconds())
	return r
}
