package resp

import (
	"context"
	"net"
	"time"
)

const (
	// between is the time between the dials of two addresses of one name, as RFC 8305 has it.
	between = 250 * time.Millisecond
	// maxAddresses is how many addresses of a name are dialled.
	maxAddresses = 16
)

// names dials names that may have several addresses. Package net gives each address at least 2 s
// before it dials the next one. So one dead address would take all the time of a dial.
type names struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lookup func(ctx context.Context, host string) ([]string, error)
	limit  time.Duration // of a dial with the lookup; 0: none
}

// namesOf returns names that dials with d.
func namesOf(d *net.Dialer) names {
	return names{dial: d.DialContext, lookup: net.DefaultResolver.LookupHost, limit: d.Timeout}
}

// DialContext connects to the address that answers first. It dials the next one after between, or
// as soon as all that were dialled have failed.
func (n names) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || network != "tcp" || host == "" || net.ParseIP(host) != nil {
		return n.dial(ctx, network, address)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the dials that come too late
	if n.limit > 0 {
		limited, end := context.WithTimeout(ctx, n.limit)
		defer end()
		ctx = limited
	}
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
	wait := time.NewTimer(between)
	defer wait.Stop()
	dialNext := func() {
		next := net.JoinHostPort(ips[0], port)
		ips = ips[1:]
		running++
		go func() {
			conn, err := n.dial(ctx, network, next)
			results <- result{conn, err}
		}()
		wait.Reset(between)
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
