package lock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
)

// This readiness check takes one round trip to Redis. It is for a service that can do nothing without
// locks. In a Cluster, it asks the one master that has this name. A liveness check should not ask
// Redis, because a restart of the process while Redis is down would only lose its locks.
func ExampleMutex_IsLocked_readiness() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	ready := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := client.Mutex("ready").IsLocked(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	ask := func() int { // what the kubelet does
		answer := httptest.NewRecorder()
		ready(answer, httptest.NewRequest(http.MethodGet, "/ready", nil))
		return answer.Code
	}
	fmt.Println(ask())
	server.Close()
	fmt.Println(ask())
	// Output:
	// 200
	// 503
}
