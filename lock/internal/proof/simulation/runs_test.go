package simulation_test

import (
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// For 100 ms after a script has succeeded, a client hands a Mutex to its own next waiters without
// asking Redis. The script has reserved the tokens of these waiters. The oracle reads the counter of
// tokens at every step, so it knows exactly when each token was reserved: time passes only between
// steps.

// passes has the hand-overs of a mutex. world.mu guards it.
type passes struct {
	reserved []reservation      // in their order
	holders  map[int64]holder   // who got it with that token
	endings  map[int64]ending   // by token, the last Unlock that succeeded
	news     map[int64]struct{} // tokens whose hand-over was not checked yet
}

// reservation is a moment by which all tokens up to one were reserved.
type reservation struct {
	upto int64
	at   time.Time
}

// holder is the client that got a token, and when.
type holder struct {
	client *client
	at     time.Time
}

// ending is the last Unlock of a hold.
type ending struct {
	client *client
	began  time.Time
}

func newPasses() passes {
	return passes{holders: map[int64]holder{}, endings: map[int64]ending{}, news: map[int64]struct{}{}}
}

// got notes that g was granted.
func (p *passes) got(g *grant) {
	if g.token > 0 {
		p.holders[g.token] = holder{g.client, time.Now()}
		p.news[g.token] = struct{}{}
	}
}

// gaveBack notes that an Unlock of g, which began then, has succeeded. The last one of a hold counts.
func (p *passes) gaveBack(g *grant, began time.Time) {
	if g.token > 0 && !began.Before(p.endings[g.token].began) {
		p.endings[g.token] = ending{g.client, began}
		p.news[g.token+1] = struct{}{}
	}
}

// when returns when a token was reserved. ok is false if that is not known.
func (p *passes) when(token int64) (at time.Time, ok bool) {
	i := slices.IndexFunc(p.reserved, func(r reservation) bool { return r.upto >= token })
	if i < 0 {
		return time.Time{}, false
	}
	return p.reserved[i].at, true
}

// counterOf returns the key of the token counter of an object.
func (w *world) counterOf(o *object) string {
	return keys.CountersOf("", w.scenario.Cluster > 0).Key(o.name)
}

// checkRuns checks that no mutex was handed over in memory too long after the script that reserved its
// token. It also calls stale for all grants.
func (w *world) checkRuns(grants []*grant) {
	for _, o := range w.objects {
		if o.kind != mutex {
			continue
		}
		last, _ := redis.String(w.ask("GET", w.counterOf(o)), nil)
		upto, _ := strconv.ParseInt(last, 10, 64)
		w.mu.Lock()
		p, late, by := &o.runs, int64(0), time.Duration(0)
		if n := len(p.reserved); n == 0 || upto > p.reserved[n-1].upto {
			p.reserved = append(p.reserved, reservation{upto, time.Now()})
		}
		for token := range p.news {
			before, ended := p.endings[token-1]
			reserved, known := p.when(token)
			after := p.holders[token]
			// A hold that somebody took away by force may end after the next one was got.
			handed := after.client == before.client && !after.at.Before(before.began)
			if ended && known && handed && before.began.Sub(reserved) > inMemory && !w.forgot {
				late, by = token, before.began.Sub(reserved)
			}
		}
		clear(p.news)
		w.mu.Unlock()
		if late > 0 {
			w.fail("%s: token %d was handed over in memory %v after the script that reserved it, or later", o.name, late, by)
		}
	}
	for _, g := range grants {
		w.checkStale(g)
	}
}

// checkStale checks the deadline of g if its lock was deleted after the token of g was reserved. It must not be
// later than the longest lease of g's owner after the deletion.
func (w *world) checkStale(g *grant) {
	if _, other := g.held.(*foreign); other || g.object.kind != mutex || g.token == 0 {
		return
	}
	end := g.held.Deadline()
	w.mu.Lock()
	reserved, known := g.object.runs.when(g.token)
	most, late := max(lease, w.asked[g.owner]), false
	for _, d := range g.object.taken {
		late = late || known && !d.gone.IsZero() && reserved.Before(d.from) && end.After(d.gone.Add(most)) && !w.forgot
	}
	w.mu.Unlock()
	if late {
		w.fail("%s: owner %d relies on it until %v from now, and it was deleted more than %v before that", g.object.name, g.owner, time.Until(end), most)
	}
}
