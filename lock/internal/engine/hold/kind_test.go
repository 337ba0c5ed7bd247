package hold_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// TestAFieldIsNotTooLongForASmallHash: Redis keeps fields of up to 64 bytes in a listpack, without
// a hash table of 136 bytes. A writer's field is the longest, and has 64 bytes when its owner and its seq
// have ten digits each. A label does not make it longer.
func TestAFieldIsNotTooLongForASmallHash(t *testing.T) {
	const most = 9_999_999_999
	for _, label := range []string{"", "a", "web-1", strings.Repeat("long", 100)} {
		id := owner.NewID(label)
		o := owner.Owner{Text: id, ID: most}
		require.Len(t, hold.FieldOf(id, hold.Write, o, most), 64)
		require.Len(t, hold.FieldOf(id, hold.Mutex, o, most), 58)
	}
}

// TestNoLabelMakesAFieldSomethingElse: whatever the label, a field does not look like a stranger's
// (<id>:<n>), and scripts recognise it as ours. Keys whose names contain it stay in the slot of their
// lock, and no lock may have such a name.
func TestNoLabelMakesAFieldSomethingElse(t *testing.T) {
	strangers := regexp.MustCompile(`\A[^:]+:\d+\z`)
	ours := regexp.MustCompile(`\A[A-Za-z0-9._@-]{36}:\d+:\d+(:write)?\z`)
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", ":write", ":1:1", "{}", "{x}", "}{", "}:1", "mode", "@", "\x00"})).Draw(t, "label")
		id := owner.NewID(label)
		o := owner.Owner{Text: id, ID: rapid.Uint64Range(1, 1e9).Draw(t, "owner")}
		seq := rapid.Uint64Range(1, 1e9).Draw(t, "seq")
		kind := rapid.SampledFrom([]hold.Kind{hold.Mutex, hold.Fenced, hold.Fair, hold.Read, hold.Write}).Draw(t, "kind")
		field := hold.FieldOf(id, kind, o, seq)
		require.Regexp(t, ours, field)
		require.NotRegexp(t, strangers, field)
		require.Equal(t, kind == hold.Write, strings.HasSuffix(field, ":write"))
		for _, name := range []string{"n", "order:42", "{tag}n", "a{tag}b"} {
			for _, key := range []string{keys.RWReader(name, field), keys.Result(name, id, seq)} {
				require.Equal(t, keys.Slot(name), keys.Slot(key), key)
				require.Error(t, keys.Check(key), key)
			}
			require.Equal(t, keys.Slot(name), keys.Slot(keys.FairChannel(name, field)))
		}
	})
}
