package lock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestCheckFindsNothingWrongWithAServerThatIsRight(t *testing.T) {
	s := fixture.Server(t)
	var log fixture.Log
	c := fixture.ClientOf(t, s, lock.Config{Logger: log.Logger()})
	before := fixture.Int(t, s, "DBSIZE")
	require.NoError(t, c.Check(bounded.Context(t)))
	require.Equal(t, before, fixture.Int(t, s, "DBSIZE"))
	m := fixture.ClientOf(t, fixture.Mini(t), lock.Config{Logger: log.Logger()})
	require.NoError(t, m.Check(bounded.Context(t)))
}
