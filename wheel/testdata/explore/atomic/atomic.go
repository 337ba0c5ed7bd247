// Package atomic replaces sync/atomic where the wheel is explored: see sched. Every operation on a watched value is a point.
package atomic

import (
	"unsafe"

	"explored/sched"
)

type value[T any] struct {
	o sched.Object
	v T
}

func (x *value[T]) load(id func(T) uint64) T {
	sched.Point(&x.o, "load")
	sched.Set(&x.o, id(x.v))
	sched.See(id(x.v))
	return x.v
}

func (x *value[T]) store(v T, id func(T) uint64) {
	sched.Point(&x.o, "store")
	x.v = v
	sched.Set(&x.o, id(v))
}

// Watch makes the operations on x points.
func (x *Int64) Watch(name string) {
	sched.Watch(&x.x.o, name)
	sched.Set(&x.x.o, uint64(x.x.v))
}

// WatchUnder is Watch of a value that is written only under a lock. held reports whether the running thread has the lock.
func (x *Int64) WatchUnder(held func() bool, name string) {
	x.Watch(name)
	x.x.o.Guard = held
}

// Peek is a load that is no point: no thread stops at it, and it is not in the history.
func (x *Int64) Peek() int64 { return x.x.v }

func (x *Bool) Watch(name string) {
	sched.Watch(&x.x.o, name)
	sched.Set(&x.x.o, truth(x.x.v))
}

func number[T int64 | uint32](v T) uint64 { return uint64(v) }

type Int64 struct{ x value[int64] }

func (x *Int64) Load() int64   { return x.x.load(number) }
func (x *Int64) Store(v int64) { x.x.store(v, number) }
func (x *Int64) Add(d int64) int64 {
	sched.Point(&x.x.o, "add")
	x.x.v += d
	sched.Set(&x.x.o, uint64(x.x.v))
	sched.See(uint64(x.x.v))
	return x.x.v
}

func (x *Int64) Swap(v int64) int64 {
	sched.Point(&x.x.o, "swap")
	old := x.x.v
	x.x.v = v
	sched.Set(&x.x.o, uint64(v))
	sched.See(uint64(old))
	return old
}

func (x *Int64) CompareAndSwap(old, v int64) bool {
	sched.Point(&x.x.o, "compare and swap")
	sched.See(uint64(x.x.v))
	if x.x.v != old {
		return false
	}
	x.x.v = v
	sched.Set(&x.x.o, uint64(v))
	return true
}

type Uint32 struct{ v uint32 }

func (x *Uint32) Add(d uint32) uint32 { x.v += d; return x.v } // only in New

// Uint64 is for measurements, which decide nothing. So its operations are no points.
type Uint64 struct{ v uint64 }

func (x *Uint64) Add(d uint64) uint64 { x.v += d; return x.v }
func (x *Uint64) Load() uint64        { return x.v }

func truth(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

type Bool struct{ x value[bool] }

func (x *Bool) Load() bool   { return x.x.load(truth) }
func (x *Bool) Store(v bool) { x.x.store(v, truth) }
func (x *Bool) Swap(v bool) bool {
	sched.Point(&x.x.o, "swap")
	old := x.x.v
	x.x.v = v
	sched.Set(&x.x.o, truth(v))
	sched.See(truth(old))
	return old
}

type Pointer[T any] struct{ x value[*T] }

func pointer[T any](p *T) uint64 { return sched.ID(unsafe.Pointer(p), p == nil) }

func (x *Pointer[T]) Watch(name string) {
	sched.Watch(&x.x.o, name)
	sched.Set(&x.x.o, pointer(x.x.v))
}

func (x *Pointer[T]) Peek() *T   { return x.x.v }
func (x *Pointer[T]) Load() *T   { return x.x.load(pointer[T]) }
func (x *Pointer[T]) Store(v *T) { x.x.store(v, pointer[T]) }
func (x *Pointer[T]) CompareAndSwap(old, v *T) bool {
	sched.Point(&x.x.o, "compare and swap")
	sched.See(pointer(x.x.v))
	if x.x.v != old {
		return false
	}
	x.x.v = v
	sched.Set(&x.x.o, pointer(v))
	return true
}

// LoadUint32 and CompareAndSwapUint32 use memory that is also written without them. So sched reads its value when it needs it,
// and finds its object by its address.
func LoadUint32(at *uint32) uint32 {
	sched.Point(sched.At(at), "load")
	sched.See(uint64(*at))
	return *at
}

func CompareAndSwapUint32(at *uint32, old, v uint32) bool {
	o := sched.At(at)
	sched.Point(o, "compare and swap")
	sched.See(uint64(*at))
	if *at != old {
		return false
	}
	*at = v
	return true
}
