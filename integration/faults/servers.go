package faults

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/redistest"
)

// masterAndReplica is a master and its replica; the methods are the master's.
type masterAndReplica struct {
	Target
	replica Target
}

func (c *masterAndReplica) Stop() error { return errors.Join(c.Target.Stop(), c.replica.Stop()) }

func doOn(t Target, cmd string, args ...any) (any, error) {
	conn, err := t.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(cmd, args...)
}

// makeReplica makes replica one of master and waits until it has all.
func makeReplica(ctx context.Context, replica, master Target) error {
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		return err
	}
	if _, err := doOn(replica, "REPLICAOF", host, port); err != nil {
		return err
	}
	if !pollUntil(ctx, patience, func() bool {
		info, err := replica.Info("replication")
		return err == nil && info["master_link_status"] == "up"
	}) {
		return errors.New("the replica does not follow")
	}
	return nil
}

func startPair(ctx context.Context, o Options, _ *scene) (Target, error) {
	args := []string{"--repl-diskless-sync-delay", "0"}
	master, err := o.Start(ctx, args...)
	if err != nil {
		return nil, err
	}
	replica, err := o.Start(ctx, args...)
	if err != nil {
		return nil, errors.Join(err, master.Stop())
	}
	if err := makeReplica(ctx, replica, master); err != nil {
		return nil, errors.Join(err, master.Stop(), replica.Stop())
	}
	return &masterAndReplica{master, replica}, nil
}

// promoteReplica makes the replica the master. Connections to the old master stay open, and it
// refuses their writes with READONLY. New connections lead to the new master.
func promoteReplica(ctx context.Context, s *scene) (int, error) {
	c := s.server.(*masterAndReplica)
	if _, err := doOn(c.replica, "REPLICAOF", "NO", "ONE"); err != nil {
		return 0, err
	}
	// The old master continues for a moment, as in a partition. Its writes from
	// now on are lost.
	sleep(ctx, randomBetween(s.rng, s.Lease/20, s.Lease/7))
	s.proxy.SetServer(faultproxy.Before(c.replica))
	if err := makeReplica(ctx, c.Target, c.replica); err != nil {
		return 0, err
	}
	c.Target, c.replica = c.replica, c.Target
	if s.control != nil {
		_ = s.control.Close()
		s.control = nil
	}
	return 1, nil
}

// clockText is a library that is loaded before libc and moves the time of day.
//
//go:embed clock.c.txt
var clockText []byte

const clockFile = "step" // seconds, as the machine writes a long

// startWithOwnClock starts a server whose time of day can be stepped: libc's answers are
// changed by a library that a C compiler makes here.
func startWithOwnClock(ctx context.Context, _ Options, s *scene) (Target, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return nil, ErrNoCompiler
	}
	server, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	source, library, step := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so"), filepath.Join(s.dir, clockFile)
	if err := errors.Join(os.WriteFile(source, clockText, 0o600), os.WriteFile(step, make([]byte, 8), 0o600)); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, compiler, "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrNoCompiler, out)
	}
	wrapper := filepath.Join(s.dir, "redis-server")
	text := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD='%s' CLOCK_STEP_FILE='%s' exec '%s' \"$@\"\n", library, step, server)
	if err := os.WriteFile(wrapper, []byte(text), 0o700); err != nil {
		return nil, err
	}
	return redistest.Start(ctx, redistest.Options{Binary: wrapper})
}

func stepClock(seconds int64) func(context.Context, *scene) (int, error) {
	return func(_ context.Context, s *scene) (int, error) {
		before, err := serverTime(s)
		if err != nil {
			return 0, err
		}
		f, err := os.OpenFile(filepath.Join(s.dir, clockFile), os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(seconds)), 0) // in place: it is mapped
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, err
		}
		after, err := serverTime(s)
		if moved := after - before; err != nil || moved < seconds-5 || moved > seconds+5 {
			return 0, err
		}
		return 1, nil
	}
}

func serverTime(s *scene) (int64, error) {
	now, err := redis.Int64s(s.do("TIME"))
	if err != nil {
		return 0, err
	}
	return now[0], nil
}
