package renewal

import "time"

// BatchReport says what became of one batch, for Config.OnBatch.
type BatchReport struct {
	Lane    string
	Leases  int           // in the batch when it was taken
	Renewed int           // acknowledged in time
	Lost    int           // the store said "not yours"
	Unknown int           // sent again if trust lasts; the remaining leases ended in the meantime
	Lag     time.Duration // from the earliest due time of its leases to the first byte
	Took    time.Duration // from the first byte until the answers were applied
	Err     error         // why the unknown ones have no answer, as the Renewer reported it; nil if there are none
	Skipped uint64        // reports dropped before this one because the hook was too slow
}
