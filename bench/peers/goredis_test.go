package peers

import (
	"context"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockgoredis"
)

// TestLockgoredisWithAnotherGoRedis: its own module requires an older one, and what a client of
// go-redis tells of itself is no promise of go-redis.
func TestLockgoredisWithAnotherGoRedis(t *testing.T) {
	s := fixture.Secure(t)
	rdb := goredis.NewClient(&goredis.Options{Addr: s.SecureAddr, TLSConfig: s.Client, DB: 1})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := lockgoredis.New(rdb, lock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer fixture.CloseNow(c)
	if err := c.Mutex("m").Do(ctx, func(ctx context.Context, _ *lock.Held) error { return rdb.HLen(ctx, "m").Err() }); err != nil {
		t.Fatal(err)
	}
	failover := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}})
	defer failover.Close()
	many := goredis.NewFailoverClusterClient(&goredis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}})
	defer many.Close()
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "h:1"}})
	defer ring.Close()
	for says, rdb := range map[string]goredis.UniversalClient{"call NewFailover": failover, "ClusterSlots is set": many, "a Ring": ring} {
		if _, err := lockgoredis.New(rdb, lock.Config{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
