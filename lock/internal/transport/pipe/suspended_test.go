package pipe

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock/script"
)

// TestARequestEndsWithItsTimeThoughTheMachineWasSuspended: a request has a last moment, which was 20 s ahead
// when the machine was suspended.
func TestARequestEndsWithItsTimeThoughTheMachineWasSuspended(t *testing.T) {
	now := time.Now()
	cfg := &Config{Timeout: time.Second}
	var clock Clock
	clock.Sample(now, now, now.Add(time.Hour), time.Microsecond)
	late := redis.Error("LATE 1790000000000")
	for seconds, left := range map[uint64]time.Duration{0: 20 * time.Second, 19: time.Second, 20: 0, 60: -40 * time.Second} {
		r := &Request{script: script.SemaphoreTake}
		r.Within(bounded.BeforeSuspension(now.Add(20*time.Second), seconds))
		require.Equal(t, left <= 0, r.isExpired(now), seconds)
		r.Within(r.notAfter.Add(300 * time.Millisecond))
		require.Equal(t, left+300*time.Millisecond <= 0, r.isExpired(now), seconds)
		r.stamp(now, &clock, cfg.Timeout)
		want, _ := clock.Limit(now, min(left+300*time.Millisecond, cfg.Timeout))
		require.Equal(t, want, r.limit, seconds)
		if left < cfg.Timeout {
			require.Equal(t, Final, cfg.judgeAnswer(r, late), seconds)
		} else {
			require.Equal(t, Late, cfg.judgeAnswer(r, late), "it is sent again after %d", seconds)
		}
	}
}
