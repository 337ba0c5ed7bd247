package lockotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/wheellock/wheellock/lock/lockotel"

// Config says where spans and metrics go. The zero Config works.
type Config struct {
	TracerProvider trace.TracerProvider // default otel.GetTracerProvider()
	MeterProvider  metric.MeterProvider // default otel.GetMeterProvider()
}

func (cfg Config) withDefaults() Config {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	return cfg
}

// meter makes instruments and keeps the first error.
type meter struct {
	metric.Meter
	err error
}

func (m *meter) note(err error) {
	if m.err == nil {
		m.err = err
	}
}
