package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock"
)

// askTimeout bounds all requests of one inspect or unlock together.
const askTimeout = 10 * time.Second

// view is what inspect says about a lock. Programs read its JSON: fields stay as they are.
type view struct {
	Name    string   `json:"name"`
	Quoted  bool     `json:"quoted,omitempty"` // Name is a quoted Go string, because the name is not UTF-8
	Locked  bool     `json:"locked"`
	Mode    string   `json:"mode,omitempty"`  // exclusive, read, write or foreign
	TTL     *float64 `json:"ttl_s,omitempty"` // seconds; left out if the key has no TTL
	Token   int64    `json:"token,omitempty"` // the last fencing token of a lock that has a counter
	Holders []holder `json:"holders,omitempty"`
}

type holder struct {
	ID      string `json:"id"`
	Quoted  bool   `json:"quoted,omitempty"` // ID is a quoted Go string, because the id is not UTF-8
	Label   string `json:"label,omitempty"`  // the label of the holder's client
	Count   int    `json:"count"`
	Writing bool   `json:"writing,omitempty"`
}

// String returns the holder's label and id, or the id alone.
func (h holder) String() string {
	if h.Label == "" {
		return printable(h.ID)
	}
	return h.Label + " (" + printable(h.ID) + ")"
}

// inspect is the subcommand inspect.
func (p *program) inspect(args []string) (int, error) {
	var s servers
	fs := newFlags("inspect [flags] NAME", "Says who holds the lock NAME.")
	asJSON := fs.Bool("json", false, "print JSON")
	name, err := p.parseNamed(fs, &s, args)
	if err != nil {
		return 0, err
	}
	return 0, s.withLock(name, func(_ context.Context, _ *lock.Client, v view) error {
		if *asJSON {
			quote(&v.Name, &v.Quoted)
			return p.printJSON(v, v.Holders, "  ")
		}
		return p.print(v)
	})
}

// withLock reads a lock with a client that logs nothing, and calls f.
func (s *servers) withLock(name string, f func(context.Context, *lock.Client, view) error) error {
	client, err := s.open(lock.Config{Logger: (&notices{}).logger()})
	if err != nil {
		return err
	}
	defer closeClient(client)
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	v, err := look(ctx, client, name)
	if err != nil {
		return s.explain(err)
	}
	return s.explain(f(ctx, client, v))
}

// look reads a lock of any kind.
func look(ctx context.Context, client *lock.Client, name string) (view, error) {
	mode := "exclusive"
	info, err := client.Mutex(name).Inspect(ctx)
	if errors.Is(err, lock.ErrNotALock) {
		var errRW error
		if info, errRW = client.RWMutex(name).Reader().Inspect(ctx); errRW != nil {
			return view{}, err
		}
		if mode = "read"; info.Writing {
			mode = "write"
		}
	} else if err != nil {
		return view{}, err
	}
	v := view{Name: client.Mutex(name).Name(), Locked: info.Locked}
	// Without the right to read the counter, inspect shows no token.
	v.Token, _ = client.FencedMutex(name).Token(ctx)
	if !info.Locked {
		return v, nil
	}
	if v.Mode = mode; info.Foreign {
		v.Mode = "foreign"
	}
	if info.TTL >= 0 {
		seconds := info.TTL.Seconds()
		v.TTL = &seconds
	}
	for _, h := range info.Holders {
		v.Holders = append(v.Holders, holder{ID: h.Field, Label: h.Label, Count: h.Count, Writing: h.Writing})
	}
	return v, nil
}

func (v view) String() string {
	var b strings.Builder
	if !v.Locked {
		fmt.Fprintf(&b, "%s: free\n", printable(v.Name))
	} else {
		fmt.Fprintf(&b, "%s: held (%s)\n", printable(v.Name), v.Mode)
	}
	switch {
	case v.TTL != nil:
		fmt.Fprintf(&b, "  lease   %.1f s left\n", *v.TTL)
	case v.Locked:
		fmt.Fprintf(&b, "  lease   without end\n")
	}
	for _, h := range v.Holders {
		fmt.Fprintf(&b, "  holder  %v", h)
		if h.Writing {
			b.WriteString(", writes")
		}
		if h.Count > 1 {
			fmt.Fprintf(&b, ", %d times", h.Count)
		}
		b.WriteString("\n")
	}
	if v.Token > 0 {
		fmt.Fprintf(&b, "  token   %d (of the last fenced holder)\n", v.Token)
	}
	return b.String()
}
