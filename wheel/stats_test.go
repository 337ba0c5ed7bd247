package wheel_test

import (
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

func TestStatsSinceSubtractsEveryCounter(t *testing.T) {
	// Values of one moment, and a distribution, which has a test of its own.
	others := map[string]bool{"Pending": true, "Running": true, "RunningFor": true, "Behind": true, "LargestLateness": true, "Lateness": true}
	var earlier, later wheel.Stats
	e, l := reflect.ValueOf(&earlier).Elem(), reflect.ValueOf(&later).Elem()
	for i := range l.NumField() {
		if l.Field(i).CanInt() {
			e.Field(i).SetInt(3)
			l.Field(i).SetInt(10)
		}
	}
	since := reflect.ValueOf(later.Since(earlier))
	for i := range since.NumField() {
		name := since.Type().Field(i).Name
		switch {
		case !since.Field(i).CanInt():
			require.True(t, others[name], name)
		case others[name]:
			require.Equal(t, int64(10), since.Field(i).Int(), name)
		default:
			require.Equal(t, int64(7), since.Field(i).Int(), name)
		}
	}
}

func TestTheDriverIsNotBehindAfterGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{OnError: func(*wheel.CallbackError) {}})
		_, err := w.AfterFunc(time.Second, runtime.Goexit)
		require.NoError(t, err)
		advance(time.Hour)
		require.Equal(t, int64(1), w.Stats().Panics)
		require.Zero(t, w.Stats().Behind)
	})
}
