package locktable

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type fakeTable = holdTable[*fakeHold]

func newHoldTable() *fakeTable { return &fakeTable{seed: maphash.MakeSeed()} }

// capacity returns how many holds a table has room for.
func capacity(t *fakeTable) int { return len(t.tags) }

// check compares a table with the map that it replaces.
func check(tb rapid.TB, t *fakeTable, want map[string]*fakeHold) {
	require.Len(tb, want, t.n)
	seen := 0
	for h := range t.all() {
		require.Same(tb, want[h.name], h)
		seen++
	}
	require.Equal(tb, t.n, seen)
	for name, h := range want {
		got, _ := t.get(name)
		require.Same(tb, h, got, name)
	}
}

func TestHoldTableIsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table, want := newHoldTable(), map[string]*fakeHold{}
		if rapid.Bool().Draw(rt, "side by side") {
			// All names begin their search at few places: the worst case.
			names := neighbouringNames(table, 40)
			for _, i := range rapid.SliceOfN(rapid.IntRange(-len(names), len(names)-1), 0, 200).Draw(rt, "names") {
				step(rt, table, want, names[(i+len(names))%len(names)], i < 0)
				check(rt, table, want)
			}
			return
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(-30, 30), 0, 200).Draw(rt, "names") {
			step(rt, table, want, strconv.Itoa(max(i, -i)), i < 0)
		}
		check(rt, table, want)
	})
}

func step(tb rapid.TB, table *fakeTable, want map[string]*fakeHold, name string, remove bool) {
	if !remove {
		h := &fakeHold{name: name}
		table.set(h)
		want[name] = h
		return
	}
	require.False(tb, table.remove(&fakeHold{name: name}), "another hold of that name")
	if h := want[name]; h != nil {
		require.True(tb, table.remove(h))
		require.False(tb, table.remove(h))
		delete(want, name)
	}
	_, found := table.get(name)
	require.False(tb, found)
}

// neighbouringNames returns names whose places lie side by side at the end of the table, so that searches
// continue at its beginning.
func neighbouringNames(table *fakeTable, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		name := strconv.Itoa(i)
		if tag := uint32(maphash.String(table.seed, name)); tag > 1<<32-1<<25 {
			names = append(names, name)
		}
	}
	return names
}

func TestHoldTableGrowsAndShrinks(t *testing.T) {
	table, all := newHoldTable(), make([]*fakeHold, 100_000)
	for i := range all {
		all[i] = &fakeHold{name: strconv.Itoa(i)}
		table.set(all[i])
	}
	require.Less(t, capacity(table), 2*len(all))
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, h := range all[1000:] {
		require.True(t, table.remove(h))
	}
	require.Less(t, capacity(table), 4*1000+minPlaces)
	for i, h := range all {
		want := h
		if i >= 1000 {
			want = nil
		}
		got, _ := table.get(h.name)
		require.Same(t, want, got)
	}
}
