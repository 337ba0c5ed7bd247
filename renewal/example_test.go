package renewal_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wheellock/wheellock/renewal"
)

// leases is a store of leases other than Redis: a table in memory.
type leases struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Renew carries a batch to the store and says what became of it. A store over a
// network writes its request in the function given to Send, and reads the answer
// after it.
func (s *leases) Renew(_ context.Context, b *renewal.Batch) {
	_, _ = b.Send(func(live []int, _ time.Time) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, i := range live {
			name := b.Owner(i).(*tenant).name
			if _, ok := s.until[name]; !ok {
				b.Lost(i)
				continue
			}
			if !b.Fixed(i) { // else the lease is only checked
				s.until[name] = time.Now().Add(b.TTL())
			}
			b.Renewed(i)
		}
		return nil // an error: try again
	})
}

// tenant has the lease in its own record. A million tenants need no more memory than
// their records.
type tenant struct {
	name  string
	lease renewal.Lease
	lost  chan renewal.Reason
}

// Lost is called once, before the store lets the lease expire, as long as the
// store keeps it.
func (t *tenant) Lost(why renewal.Reason) { t.lost <- why }

func Example() {
	store := &leases{until: map[string]time.Time{"flat 7": time.Now().Add(3 * time.Second)}}
	watchdog, err := renewal.New(renewal.Config{TTL: 3 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watchdog.Close()
	lane, err := watchdog.Lane("store", store) // one for each server
	if err != nil {
		fmt.Println(err)
		return
	}

	t := &tenant{name: "flat 7", lost: make(chan renewal.Reason, 1)}
	taken := time.Now() // before the request that took it was sent
	if err := lane.Hold(&t.lease, t, renewal.Terms{Stamp: taken, TTL: 3 * time.Second}); err != nil {
		fmt.Println(err)
		return
	}
	for watchdog.Stats().Renewed == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("valid:", t.lease.Valid())

	store.mu.Lock()
	delete(store.until, "flat 7")
	store.mu.Unlock()
	fmt.Println("lost:", <-t.lost)
	// Output:
	// valid: true
	// lost: not the owner any more
}
