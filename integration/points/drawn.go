package points

import (
	"cmp"
	"hash/fnv"
	"hash/maphash"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Sorted is a range over a map, in the order of its keys.
func Sorted[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if v, there := m[k]; there && !yield(k, v) {
				return
			}
		}
	}
}

// Pool is a sync.Pool that always returns the value that was put last. It does not depend on the
// processor or on the garbage collector.
type Pool struct {
	New func() any

	mu   sync.Mutex // guards the fields below
	kept []any
}

// Get is sync.Pool.Get.
func (p *Pool) Get() any {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.kept); n > 0 {
		x := p.kept[n-1]
		p.kept = p.kept[:n-1]
		return x
	}
	if p.New == nil {
		return nil
	}
	return p.New()
}

// Put is sync.Pool.Put.
func (p *Pool) Put(x any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, x)
}

// String is maphash.String with the same seed for all.
func String(_ maphash.Seed, s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	// Tables take the first bits, which FNV mixes worst.
	return h.Sum64() * 0x9e3779b97f4a7c15
}

// Select is reflect.Select of cases that receive. It takes the first ready case, or the last one if
// Flip says so.
func Select(cases []reflect.SelectCase) (int, reflect.Value, bool) {
	backwards, n := Flip(), len(cases)
	for k := range n {
		i := k
		if backwards {
			i = n - 1 - k
		}
		if chosen, value, ok := reflect.Select([]reflect.SelectCase{cases[i], {Dir: reflect.SelectDefault}}); chosen == 0 {
			Here("woken")
			return i, value, ok
		}
	}
	i, value, ok := reflect.Select(cases)
	Here("woken")
	return i, value, ok
}
