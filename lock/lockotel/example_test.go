package lockotel_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockotel"
)

// A service uses the providers of its own OpenTelemetry set-up, and a pool of its own Redis.
func Example() {
	server, err := redistest.StartMini(redistest.MiniOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	spans := tracetest.NewInMemoryExporter()
	traces := trace.NewTracerProvider(trace.WithSyncer(spans))
	cfg := lockotel.Config{TracerProvider: traces, MeterProvider: sdkmetric.NewMeterProvider()}

	hooks, err := lockotel.Hooks(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lock.New(server.Pool(0), lock.Config{Hooks: hooks})
	if err != nil {
		fmt.Println(err)
		return
	}
	counting, err := lockotel.Count(client, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer counting.Unregister()

	ctx, request := traces.Tracer("service").Start(context.Background(), "request")
	held, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = held.Unlock(ctx)
	request.End()
	_ = client.Close(ctx)
	for _, s := range spans.GetSpans() {
		fmt.Print(s.Name)
		for _, e := range s.Events {
			fmt.Print(" ", e.Name)
		}
		fmt.Println()
	}
	// Output:
	// wheellock.lock acquired released
	// request
}
