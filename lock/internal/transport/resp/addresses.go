package resp

import (
	"context"
	"net"
	"time"
)

const (
	// nextDialAfter is the time between the dials of two addresses of one name, as RFC 8305 has it.
	nextDialAfter = 250 * time.Millisecond
	// maxAddresses is how many addresses of a name are dialled.
	maxAddresses = 16
)

// nameDialer dials host names that may have several addresses. Package net gives each address at least 2 s
// before it dials the next one. So one dead address would take all the time of a dial.
type nameDialer struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lookup func(ctx context.Context, host string) ([]string, error)
	limit  time.Duration // of a dial, with the lookup, whose context has no deadline
}

// dialAddresses connects as package net does, but see nameDialer.
func dialAddresses(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: keepAlive}
	return nameDialer{dial: dialer.DialContext, lookup: net.DefaultResolver.LookupHost, limit: connectTimeout}.DialContext(ctx, network, address)
}

// DialContext connects to the address that answers first. It dials the next address after
// nextDialAfter, or as soon as all dials so far have failed.
func (n nameDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.limit)
		defer cancel()
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || network != "tcp" || host == "" || net.ParseIP(host) != nil {
		return n.dial(ctx, network, address)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the dials that come too late
	ips, err := n.lookup(ctx, host)
	if err != nil || len(ips) == 0 {
		return n.dial(ctx, network, address) // it fails with an error of package net
	}
	ips = ips[:min(len(ips), maxAddresses)]
	type result struct {
		net.Conn
		err error
	}
	results := make(chan result, len(ips))
	running := 0
	defer func() {
		go func() {
			for range running {
				if r := <-results; r.err == nil {
					r.Close()
				}
			}
		}()
	}()
	wait := time.NewTimer(nextDialAfter)
	defer wait.Stop()
	dialNext := func() {
		next := net.JoinHostPort(ips[0], port)
		ips = ips[1:]
		running++
		go func() {
			conn, err := n.dial(ctx, network, next)
			results <- result{conn, err}
		}()
		wait.Reset(nextDialAfter)
	}
	for dialNext(); ; {
		select {
		case r := <-results:
			running--
			if r.err == nil {
				return r.Conn, nil
			}
			if err == nil {
				err = r.err
			}
			if running > 0 {
				continue
			}
			if len(ips) == 0 || ctx.Err() != nil {
				return nil, err
			}
		case <-wait.C:
		}
		if len(ips) > 0 && ctx.Err() == nil {
			dialNext()
		}
	}
}
