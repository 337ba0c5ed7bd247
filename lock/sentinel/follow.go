package sentinel

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/topology"
)

const (
	leastGap   = 100 * time.Millisecond // the shortest time between two questions, however many hints come
	pingPeriod = 2 * time.Second        // between two pings on the connection that listens

	// The pause before listen goes to the next sentinel is leastRedial, and twice as long each
	// time up to mostRedial while no sentinel lets it subscribe.
	leastRedial = time.Second
	mostRedial  = time.Minute
)

// Follow implements topology.Topology.
func (s *Topology) Follow(ctx context.Context, period time.Duration, hint <-chan struct{}, update func(topology.Layout)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	switched := make(chan struct{}, 1)
	wg.Go(func() { s.listen(ctx, switched) })
	s.addFollow(1)
	defer s.addFollow(-1)
	for ctx.Err() == nil {
		found, err := s.ask(ctx)
		if err != nil {
			found, _ = s.last() // Dial still uses this master
		}
		if found.addr == "" {
			update(topology.Layout{Err: err})
		} else {
			update(topology.Layout{Servers: []topology.Server{{Name: found.addr, Instance: found.instance()}}, Warning: found.doubt})
		}
		sleep(ctx, min(leastGap, period), nil, nil)
		sleep(ctx, period-min(leastGap, period), hint, switched)
	}
}

func sleep(ctx context.Context, d time.Duration, wake1, wake2 <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake1:
	case <-wake2:
	case <-ctx.Done():
	}
}

// listen puts a token into switched when a sentinel tells of a failover. If one
// sentinel fails, listen goes to the next. The periodic question finds a failover
// that listen misses.
func (s *Topology) listen(ctx context.Context, switched chan<- struct{}) {
	pause := leastRedial
	for i := 0; ctx.Err() == nil; i++ {
		if subscribed, _ := s.listenAt(ctx, s.cfg.Sentinels[i%len(s.cfg.Sentinels)], switched); subscribed {
			pause = leastRedial
		}
		sleep(ctx, pause, nil, nil)
		pause = min(2*pause, mostRedial)
	}
}

// listenAt listens to one sentinel until that fails. subscribed says that the sentinel has let it.
func (s *Topology) listenAt(ctx context.Context, addr string, switched chan<- struct{}) (subscribed bool, err error) {
	dialCtx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	conn, err := s.dialSentinel(dialCtx, addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	resp.LimitMessages(conn)
	psc := redis.PubSubConn{Conn: conn}
	if err := psc.Subscribe("+switch-master"); err != nil {
		return false, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	gone := make(chan struct{})
	defer close(gone)
	wg.Go(func() { // the only writer from here on
		t := time.NewTicker(pingPeriod)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if psc.Ping("") != nil {
					return
				}
			case <-gone:
				return
			}
		}
	})
	for {
		switch v := psc.ReceiveWithTimeout(pingPeriod + s.cfg.Timeout).(type) {
		case redis.Subscription:
			subscribed = true
		case error:
			// A refused ping also shows that the connection works.
			if _, answer := v.(redis.Error); !answer || !subscribed {
				return subscribed, v
			}
		case redis.Message:
			select {
			case switched <- struct{}{}:
			default:
			}
		}
	}
}
