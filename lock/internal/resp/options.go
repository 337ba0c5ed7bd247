package resp

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"time"
	"unsafe"

	"github.com/gomodule/redigo/redis"
)

// DialContext is redis.DialContext with limits for the answers. It takes all options of
// redigo.
func DialContext(ctx context.Context, network, address string, options ...redis.DialOption) (redis.Conn, error) {
	return Dialer{}.DialContext(ctx, network, address, options...)
}

// DialContext is the function DialContext, but d replaces options of the same purpose.
func (d Dialer) DialContext(ctx context.Context, network, address string, options ...redis.DialOption) (redis.Conn, error) {
	of, ok := dialerOf(options)
	if !ok {
		return redis.DialContext(ctx, network, address, append(options[:len(options):len(options)], d.options()...)...)
	}
	if d.NetDial != nil {
		of.NetDial = d.NetDial
	}
	if d.TLS != nil {
		of.TLS = d.TLS
	}
	if d.Handshake != 0 {
		of.Handshake = d.Handshake
	}
	return of.Dial(ctx, network, address, options...)
}

// options returns d as options of redigo.
func (d Dialer) options() (options []redis.DialOption) {
	if d.NetDial != nil {
		options = append(options, redis.DialContextFunc(d.NetDial))
	}
	if d.TLS != nil {
		options = append(options, redis.DialUseTLS(true), redis.DialTLSConfig(d.TLS))
	}
	if d.Handshake != 0 {
		options = append(options, redis.DialTLSHandshakeTimeout(d.Handshake))
	}
	return options
}

// dialerOf returns the Dialer of some options. redigo hides its options, and does TLS above
// the net.Conn that a dial function returns, where a Conn could not read the answers. So
// dialerOf applies the options to a value of redigo's own type and reads the fields of that
// value. ok is false if redigo has other fields. A test fails with such a redigo.
func dialerOf(options []redis.DialOption) (d Dialer, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}
	field, _ := reflect.TypeFor[redis.DialOption]().FieldByName("f")
	all := reflect.New(field.Type.In(0).Elem()).Elem()
	set(all, "dialer", dialer)
	set(all, "tlsHandshakeTimeout", handshakeTimeout)
	for _, o := range options {
		v := reflect.New(reflect.TypeOf(o)).Elem()
		v.Set(reflect.ValueOf(o))
		open(v.FieldByName("f")).Call([]reflect.Value{all.Addr()})
	}
	d.NetDial = get[func(context.Context, string, string) (net.Conn, error)](all, "dialContext")
	if d.NetDial == nil {
		d.NetDial = namesOf(dialer).DialContext
	}
	d.Handshake = get[time.Duration](all, "tlsHandshakeTimeout")
	if get[bool](all, "useTLS") {
		if d.TLS = get[*tls.Config](all, "tlsConfig"); d.TLS == nil {
			d.TLS = &tls.Config{InsecureSkipVerify: get[bool](all, "skipVerify")}
		}
	}
	d.greeting = greetingOf(get[string](all, "username"), get[string](all, "password"), get[string](all, "clientName"), get[int](all, "db"))
	return d, true
}

// greetingOf returns the commands that redigo sends over a new connection.
func greetingOf(user, password, clientName string, database int) [][]any {
	greeting := [][]any{}
	switch {
	case password != "" && user != "":
		greeting = append(greeting, []any{"AUTH", user, password})
	case password != "":
		greeting = append(greeting, []any{"AUTH", password})
	}
	if clientName != "" {
		greeting = append(greeting, []any{"CLIENT", "SETNAME", clientName})
	}
	if database != 0 {
		greeting = append(greeting, []any{"SELECT", database})
	}
	return greeting
}

// The first and the last are redigo's defaults.
const (
	connectTimeout = 30 * time.Second
	// keepAlive is how soon TCP probes an idle connection. redigo has 5 minutes, but balancers
	// and NATs forget a flow that is idle for 4 minutes.
	keepAlive        = 30 * time.Second
	handshakeTimeout = 10 * time.Second
)

// open returns a field that may be read, called and set although it is not exported.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

func get[T any](all reflect.Value, name string) T {
	return open(all.FieldByName(name)).Interface().(T)
}

func set[T any](all reflect.Value, name string, value T) {
	open(all.FieldByName(name)).Set(reflect.ValueOf(value))
}
