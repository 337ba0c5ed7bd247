package keeper

// Stats is a snapshot of a Keeper. The counters begin at 0 with the Keeper.
type Stats struct {
	Wanted  int // names that are wanted, whoever holds them
	Kept    int // names that this Keeper holds and does not give back
	Waiting int // wanted names that are not held and not asked for now
	Asking  int // tries under way
	Ending  int // names that were lost or given up, and whose functions or release have not ended

	Sharers int // Keepers that share the names, as counted last; 0 without Config.Share, and until it is known

	Failing bool // the last tries failed, so the Keeper sends one try at a time, with pauses

	Taken   uint64 // calls of Config.Taken
	Lost    uint64 // names that were lost
	GivenUp uint64 // names that were given up: by Drop, by Most or by Close
	Tries   uint64 // tries that ended
	Refused uint64 // tries that found another owner
	Looks   uint64 // names of which it was asked whether another owner still has them
	Heard   uint64 // releases that were heard
	Failed  uint64 // tries that got no answer, no connection or an error
	// Unreleased counts the names of which Redis did not confirm the release. The
	// client continues to try.
	Unreleased uint64

	// LastError is the error of the last try that failed, nil if none did.
	LastError error
}

// Since returns what the counters counted between an earlier snapshot and s. The
// other fields are those of s.
func (s Stats) Since(earlier Stats) Stats {
	s.Taken -= earlier.Taken
	s.Lost -= earlier.Lost
	s.GivenUp -= earlier.GivenUp
	s.Tries -= earlier.Tries
	s.Refused -= earlier.Refused
	s.Looks -= earlier.Looks
	s.Heard -= earlier.Heard
	s.Failed -= earlier.Failed
	s.Unreleased -= earlier.Unreleased
	return s
}
