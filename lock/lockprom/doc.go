// Package lockprom exports the counters of a lock.Client to Prometheus.
//
//	prometheus.MustRegister(lockprom.New(client))
//
// It is a module of its own, so that a user of package lock does not link the client
// library of Prometheus. A Collector has no goroutine and no state. Each scrape reads
// Client.Stats once, and no call of the Client becomes slower. A program with several
// clients tells them apart by a label of its own:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"locks": "orders"}, registry).MustRegister(lockprom.New(orders))
//
// # Metrics
//
// Counters of a new client begin at 0. No label has a lock's name, because there may be
// millions of names.
//
//	wheellock_acquisitions_total{outcome}         calls that take a lock, by how they ended (lock.Outcome)
//	wheellock_acquire_duration_seconds            histogram: how long the calls took that acquired
//	wheellock_acquire_requests_total              scripts sent to take a lock; several for each call that waits
//	wheellock_locks_held                          locks held now
//	wheellock_locks_held_seconds_total            how long all locks together have been held
//	wheellock_waiters                             calls that wait now
//	wheellock_releases_total                      holds that ended by an Unlock that returned nil
//	wheellock_losses_total{reason}                holds that were lost (lock.Reason)
//	wheellock_unanswered_requests_total           requests to which no answer came in time
//	wheellock_refused_requests_total              requests that Redis answered with an error (NOPERM, OOM, READONLY)
//	wheellock_still_seconds_total                 how long the process stood still while it held locks
//	wheellock_unanswered_unlocks_total            calls of Unlock that returned lock.ErrUnknown
//	wheellock_unlogged_records_total              log records that were dropped, because Config.Logger blocked
//	wheellock_renewals_total                      renewals that Redis acknowledged in time
//	wheellock_renewals_retried_total              renewals sent again, because no answer came
//	wheellock_renewals_queued                     renewals that are due and not yet sent
//	wheellock_renewals_in_flight                  renewals that are sent and not yet answered
//	wheellock_renewal_batches_total               batches of renewals that were sent
//	wheellock_renewal_batches_failed_total        batches of renewals that were not answered
//	wheellock_renewal_lateness_seconds            histogram: from when a renewal was due to its acknowledgement
//	wheellock_server_clock_ahead_seconds{server}  how far a server's clock is ahead of this process' clock
//
// # Metrics of a Keeper
//
// NewKeeper exports the counters of a keeper.Keeper:
//
//	wheellock_keeper_names{state}          names now: kept, waiting for another owner, asking, ending
//	wheellock_keeper_sharers               Keepers that share the names
//	wheellock_keeper_failing               1 while the last tries failed
//	wheellock_keeper_taken_total           names that were taken
//	wheellock_keeper_lost_total            names that were lost
//	wheellock_keeper_given_up_total        names that were given up
//	wheellock_keeper_tries_total           tries to take a name
//	wheellock_keeper_tries_failed_total    tries that got no answer, no connection or an error
//	wheellock_keeper_tries_refused_total   tries that found another owner
//	wheellock_keeper_unreleased_total      names whose release Redis did not confirm; the client continues to try
//	wheellock_keeper_looks_total           names of which it was asked whether another owner still has them
//	wheellock_keeper_releases_heard_total  releases by other owners that were heard
//
// Names that wait although no other process wants them, or wheellock_keeper_failing for
// minutes, need somebody to look: Stats.LastError of the Keeper says why.
//
// A histogram has buckets of 128 us, 256 us and so on, to 67 s. The counts are exact.
//
// # What to watch
//
// alerts.yml, in this folder, has rules for Prometheus. Each says what it means and what to
// do, and which panel of dashboard.json, a Grafana dashboard of a client's metrics, shows it.
// Losses with the reasons expired and closed are no faults: a lease of LockFor has ended, or
// the client was closed.
//
// The mean time for which a lock was held is the rate of wheellock_locks_held_seconds_total
// divided by the sum of the rates of wheellock_releases_total and wheellock_losses_total.
package lockprom
