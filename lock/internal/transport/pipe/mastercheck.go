package pipe

import "time"

// masterCheck says when a connection asks whether its server is a replica now.
//
// After a failover behind one name, the old master may live on as a replica. It refuses writes
// with READONLY, and in cluster mode all keys with MOVED, and then the connection is replaced. But
// otherwise it still answers a try for a lock that somebody has, because that only reads. If it does
// not follow the new master, the lock seems to be held until its lease ends. So the connection also
// sends a write that changes nothing.
type masterCheck struct {
	lastAsked time.Time // when the last question was sent, or the connection was made
	dials     uint32    // what Config.Dials returned then
}

// newMasterCheck returns the masterCheck of a connection that was made just now.
func (cfg *Config) newMasterCheck() (p masterCheck) {
	if cfg.CheckMasterEvery > 0 {
		p = masterCheck{lastAsked: time.Now(), dials: cfg.Dials()}
	}
	return p
}

// beginIfDue reports whether the connection must ask before it writes batch. If so, it records that
// the connection asks now. It asks about a key of the first request. If that has none, it does not ask.
func (p *masterCheck) beginIfDue(cfg *Config, now time.Time, batch []*Request) bool {
	if cfg.CheckMasterEvery == 0 || batch[0].keys == 0 {
		return false
	}
	dials := cfg.Dials()
	if now.Sub(p.lastAsked) < cfg.CheckMasterEvery && dials == p.dials {
		return false
	}
	p.lastAsked, p.dials = now, dials
	return true
}

// diskErrorAge is how old a connection must be to be given up because of MISCONF. So a master whose disk
// fails is dialled at most once in that time for each connection.
const diskErrorAge = 10 * time.Second

// handleMasterCheck handles the answer to a question that was sent at at, over a connection that was made at made. An
// error says that the connection is not usable. Only an answer of HDEL itself says that the server is no
// replica. A replica checks some other things before that: the user's rights and, from Redis 7 on, whether
// its disk fails. A master whose disk fails takes no lock either, so another dial costs little.
func (cfg *Config) handleMasterCheck(at, made time.Time, err error) error {
	switch {
	case OfReplica(err), Code(err) == "MISCONF" && at.Sub(made) > diskErrorAge:
		return givenUp(err)
	case err == nil, WrongType(err):
		cfg.MasterSeen(at)
	}
	return nil
}
