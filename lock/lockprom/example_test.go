package lockprom_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockprom"
)

// A service makes a client for its own Redis, and serves the registry with package promhttp.
func Example() {
	server, err := redistest.StartMini(redistest.MiniOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	client, err := lock.New(server.Pool(0), lock.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	registry := prometheus.NewRegistry()
	registry.MustRegister(lockprom.New(client))

	held, err := client.Mutex("report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	families, _ := registry.Gather()
	for _, f := range families {
		if f.GetName() == "wheellock_locks_held" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	_ = held.Unlock(context.Background())
	// Output: wheellock_locks_held 1
}
