package main

import (
	"context"
	"fmt"

	"github.com/wheellock/wheellock/lock"
)

// unlock is the subcommand.
func (p *program) unlock(args []string) (int, error) {
	var s servers
	fs := newFlags("unlock -force [flags] NAME", "Takes the lock NAME away from whoever holds it.")
	force := fs.Bool("force", false, "do it; the holder notices only at its next renewal, so two may work at once until then")
	name, err := p.parseNamed(fs, &s, args)
	if err != nil {
		return 0, err
	}
	if !*force {
		return 0, usagef("unlock: this takes the lock %q away from its holder, which notices only at the next renewal, within a third of the lease: "+
			"until then two may work at once. wheellock inspect %[1]s says who has it. To do it, write wheellock unlock -force %[1]s", name)
	}
	return 0, s.withLock(name, func(ctx context.Context, client *lock.Client, v view) error {
		m := client.Mutex(name)
		if v.Mode == "read" || v.Mode == "write" {
			m = client.RWMutex(name).Writer() // it wakes those who wait, and knows the readers' keys
		}
		was, err := m.ForceUnlock(ctx)
		if err != nil {
			return err
		}
		said := "unlocked"
		if !was {
			said = "was free"
		}
		_, err = fmt.Fprintf(p.out, "%s: %s\n", printable(name), said)
		return err
	})
}
