package renewal

import "time"

// BatchReport says what became of one batch, for Config.OnBatch. Leases that
// ended while the batch was under way are in Leases but not in Renewed, Lost or
// Unknown.
type BatchReport struct {
	Lane    string
	Leases  int           // in the batch when it was taken
	Renewed int           // leases that the store confirmed in time
	Lost    int           // leases that, as the store answered, their owners do not have
	Unknown int           // leases without an answer; they are sent again while their trust lasts
	Lag     time.Duration // from the earliest due time of the leases to the first byte
	Took    time.Duration // from the first byte until the answers were applied
	Err     error         // why the Unknown leases have no answer, as the Renewer reported it; nil if there are none
	Skipped uint64        // reports that were dropped before this one because OnBatch was too slow
}
