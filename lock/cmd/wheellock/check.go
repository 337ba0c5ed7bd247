package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock"
)

// checkTimeout bounds a check of all servers together.
const checkTimeout = time.Minute

// statusMissing is the status of a check that has found something missing.
const statusMissing = 1

// check is the subcommand check.
func (p *program) check(args []string) (int, error) {
	var s servers
	fs := newFlags("check [flags]", "Tries all that wheellock needs on Redis: every command, right and setting. It takes no lock.")
	s.register(fs)
	names, err := p.parse(fs, args)
	if err == nil && len(names) > 0 {
		err = usagef("check: unexpected argument %q: check takes only flags", names[0])
	}
	if err == nil {
		err = p.settle(&s, false)
	}
	if err != nil {
		return 0, err
	}
	log := &notices{say: p.say}
	client, err := s.open(lock.Config{Logger: log.logger()})
	if err != nil {
		return 0, err
	}
	defer closeClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	err = client.Check(ctx)
	unknown := errors.Is(err, lock.ErrUnknown) || ctx.Err() != nil
	if !unknown {
		log.open() // the lines have advice; if Redis did not answer, they would only repeat err
	}
	if err == nil {
		if err := p.print("Redis has all that wheellock needs.\n"); err != nil {
			return 0, err
		}
		return 0, p.checkList(ctx, &s)
	}
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), "lock: ")) {
		p.say("%s", line)
	}
	if text := s.certificateAdvice(err); text != "" {
		p.say("%s", text)
	}
	if s.prefix == "" && strings.Contains(err.Error(), "may not use keys") {
		p.say(forgotPrefix)
	}
	if unknown {
		return statusUnknown, nil
	}
	return statusMissing, nil
}
