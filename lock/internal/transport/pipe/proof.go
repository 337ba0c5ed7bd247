package pipe

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// proof says when a connection asks whether its server is a replica now.
//
// After a failover behind one name, the old master may live on as a replica. It refuses writes
// with READONLY, and in cluster mode all keys with MOVED, and then the connection is replaced. But it still answers a try for a lock that
// somebody has, because that only reads. If it does not follow the new master, the lock seems to be
// held until its lease ends. So the connection also sends a write that changes nothing.
type proof struct {
	lastAsked time.Time // when the last question was sent, or the connection was made
	dials     uint32    // what Config.Dials returned then
}

// proofOf returns the proof of a connection that was made just now.
func (cfg *Config) proofOf() (p proof) {
	if cfg.ProveEvery > 0 {
		p = proof{lastAsked: time.Now(), dials: cfg.Dials()}
	}
	return p
}

// beginIfDue reports whether the connection must ask before it writes batch. If so, it records that
// the connection asks now. A batch without keys has no key to ask about.
func (p *proof) beginIfDue(cfg *Config, now time.Time, batch []*Request) bool {
	if cfg.ProveEvery == 0 || batch[0].keys == 0 {
		return false
	}
	dials := cfg.Dials()
	if now.Sub(p.lastAsked) < cfg.ProveEvery && dials == p.dials {
		return false
	}
	p.lastAsked, p.dials = now, dials
	return true
}

// askProof adds the question to b. It removes a field that nothing has from the key of a request,
// because users may write that key.
func askProof(b *resp.Batch, batch []*Request) error {
	return b.Texts("HDEL", batch[0].args.First(), "")
}

// proved handles the answer to a question that was sent at at. An error says that the server is a
// replica. Every other answer says that it is none, because a replica checks that first.
func (cfg *Config) proved(at time.Time, err error) error {
	if OfReplica(err) {
		return givenUp(err)
	}
	cfg.Proved(at)
	return nil
}
