package lock

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func newHoldTable() *holdTable { return &holdTable{seed: maphash.MakeSeed()} }

// places is how many the table has room for.
func (t *holdTable) places() int { return len(t.tags) }

// check compares the table with the map that it replaces.
func (t *holdTable) check(tb rapid.TB, want map[string]*hold) {
	require.Len(tb, want, t.n)
	seen := 0
	for h := range t.all() {
		require.Same(tb, want[h.name], h)
		seen++
	}
	require.Equal(tb, t.n, seen)
	for name, h := range want {
		require.Same(tb, h, t.get(name), name)
	}
}

func TestHoldTableIsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table, want := newHoldTable(), map[string]*hold{}
		if rapid.Bool().Draw(rt, "side by side") {
			// All names begin their search at few places: the worst case.
			names := sameTags(table, 40)
			for _, i := range rapid.SliceOfN(rapid.IntRange(-len(names), len(names)-1), 0, 200).Draw(rt, "names") {
				step(rt, table, want, names[(i+len(names))%len(names)], i < 0)
				table.check(rt, want)
			}
			return
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(-30, 30), 0, 200).Draw(rt, "names") {
			step(rt, table, want, strconv.Itoa(max(i, -i)), i < 0)
		}
		table.check(rt, want)
	})
}

func step(tb rapid.TB, table *holdTable, want map[string]*hold, name string, remove bool) {
	if !remove {
		h := &hold{name: name}
		table.set(h)
		want[name] = h
		return
	}
	require.False(tb, table.remove(&hold{name: name}), "another hold of that name")
	if h := want[name]; h != nil {
		require.True(tb, table.remove(h))
		require.False(tb, table.remove(h))
		delete(want, name)
	}
	require.Nil(tb, table.get(name))
}

// sameTags are names whose tags lie side by side, at the end of the
// range, so that searches go on at the beginning.
func sameTags(table *holdTable, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		name := strconv.Itoa(i)
		if tag := uint32(maphash.String(table.seed, name)); tag > 1<<32-1<<25 {
			names = append(names, name)
		}
	}
	return names
}

func TestHoldTableGrowsAndShrinks(t *testing.T) {
	table, all := newHoldTable(), make([]*hold, 100_000)
	for i := range all {
		all[i] = &hold{name: strconv.Itoa(i)}
		table.set(all[i])
	}
	require.Less(t, table.places(), 2*len(all))
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, h := range all[1000:] {
		require.True(t, table.remove(h))
	}
	require.Less(t, table.places(), 4*1000+minPlaces)
	for i, h := range all {
		want := h
		if i >= 1000 {
			want = nil
		}
		require.Same(t, want, table.get(h.name))
	}
}

// A hold is of a size that Go's heap has, so that nothing of it is wasted.
func TestHoldFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.LessOrEqual(t, unsafe.Sizeof(hold{}), uintptr(208))
	}
}
