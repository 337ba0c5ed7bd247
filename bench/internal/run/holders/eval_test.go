package holders

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

func TestEvalSendsTheTextWhenTheServerForgotTheScript(t *testing.T) {
	t.Parallel()
	conn := fixture.Dial(t, fixture.RedisOrMini(t))
	for range 2 {
		reply, err := Eval(conn, IOTimeout, script.Renew, []any{nil, 1, "absent", 1000, "", "f"})
		require.NoError(t, err)
		require.Equal(t, []any{int64(1)}, reply)
	}
}
