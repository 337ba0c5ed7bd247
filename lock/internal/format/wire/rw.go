package wire

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// Read takes a read-write lock for reading. ReadAcquire reads its answer, whose token means
// nothing.
type Read struct {
	Name, Field string
	Lease       time.Duration
	Writer      string // field of the write hold that the owner has
	First       bool   // it does not wait for writers that wait
	Publish     any
}

// Call is rw_read.
func (r Read) Call() Call {
	return Call{Script: script.RwRead, Keys: 3, Args: resp.ArgsOf(
		r.Name, keys.RWReader(r.Name, r.Field), keys.RWWriters(r.Name),
		r.Field, Milliseconds(r.Lease), r.Writer, flag(!r.First), keys.Prefix(r.Name), keys.RWChannel(r.Name),
	).AddAny(r.Publish)}
}

// Write takes a read-write lock for writing. ReadAcquire reads its answer, whose token means
// nothing.
type Write struct {
	Name, Field string
	Lease       time.Duration
	Waiting     string        // the name under which the writer waits; "" if it does not
	Announced   time.Duration // for how long new readers wait for it
	Publish     any
}

// Call is rw_write.
func (w Write) Call() Call {
	return Call{Script: script.RwWrite, Keys: 2, Args: resp.ArgsOf(
		w.Name, keys.RWWriters(w.Name), w.Field, Milliseconds(w.Lease), w.Waiting, Milliseconds(w.Announced),
		keys.Prefix(w.Name), keys.RWChannel(w.Name),
	).AddAny(w.Publish)}
}

// ReadReenter is Reenter of a reader.
func ReadReenter(name, field string, count int32, lease time.Duration) Call {
	return Call{Script: script.RwReadReenter, Keys: 2, Args: resp.ArgsOf(name, keys.RWReader(name, field), field, count, Milliseconds(lease))}
}

// ReadRelease releases a reader's hold.
func ReadRelease(name, field string, publish any) Call {
	return Call{Script: script.RwReadRelease, Keys: 3, Args: published(resp.ArgsOf(
		name, keys.RWReader(name, field), keys.RWWriters(name), field, keys.RWChannel(name), keys.Prefix(name),
	), publish)}
}

// WriteRelease releases a writer's hold.
func WriteRelease(name, field string, publish any) Call {
	return Call{Script: script.RwWriteRelease, Keys: 2, Args: published(resp.ArgsOf(
		name, keys.RWWriters(name), field, keys.RWChannel(name), keys.Prefix(name),
	), publish)}
}

// Withdraw tells readers that a writer no longer waits.
func Withdraw(name, waiting string, publish any) Call {
	return Call{Script: script.RwWithdraw, Keys: 1, Args: published(resp.ArgsOf(keys.RWWriters(name), waiting, keys.RWChannel(name)), publish)}
}

// RWForce is Force of a read-write lock.
func RWForce(name string, publish any) Call {
	return Call{Script: script.RwForce, Keys: 2, Args: resp.ArgsOf(name, keys.RWWriters(name), keys.RWChannel(name)).AddAny(publish).Add(keys.Prefix(name))}
}
