package run

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

func TestCapacityIsMeasuredAndNothingLeft(t *testing.T) {
	t.Parallel()
	srv := fixture.Mini(t)
	capacity, err := MeasureCapacity(context.Background(), srv)
	require.NoError(t, err)
	require.Positive(t, capacity)
	require.Empty(t, fixture.LockKeys(t, srv))

	require.NoError(t, srv.Kill())
	_, err = MeasureCapacity(context.Background(), srv)
	require.Error(t, err)
}
