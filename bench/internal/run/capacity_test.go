package run

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCapacityIsMeasuredAndNothingLeft(t *testing.T) {
	t.Parallel()
	srv := miniServer(t)
	capacity, err := MeasureCapacity(context.Background(), srv)
	require.NoError(t, err)
	require.Positive(t, capacity)
	require.Empty(t, keys(t, srv))

	require.NoError(t, srv.Kill())
	_, err = MeasureCapacity(context.Background(), srv)
	require.Error(t, err)
}
