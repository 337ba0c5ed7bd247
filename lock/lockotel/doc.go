// Package lockotel exports traces and metrics of the locks of package lock with OpenTelemetry.
//
//	hooks, err := lockotel.Hooks(lockotel.Config{})           // spans, and histograms of durations
//	client, err := lock.New(pool, lock.Config{Hooks: hooks})  // or hooks.With(yours)
//	counting, err := lockotel.Count(client, lockotel.Config{}) // counters, from Client.Stats
//	defer counting.Unregister()
//
// It is a module of its own, so that a user of package lock does not link OpenTelemetry.
// It has no goroutine. The SDK of the program decides where and how often spans and metrics are
// exported.
//
// # Spans
//
// Each call that takes a lock is a span with the name wheellock.lock, a child of the span in
// the context that the call was given. It begins with the call.
//
//	acquired  an event: the call has the lock, and its wait ends
//	released  an event: Unlock returned nil; the span ends
//	lost      an event with the reason: the hold was lost; the span ends with status Error
//
// A call that did not get the lock also has a span, which ends with the call. Its status is
// Error unless the lock was refused. An Unlock that Redis did not answer ends the span, and
// its error is recorded. A re-entry has no span, because it is the same hold. Each member of
// a MultiLock or RedLock has a span of its own.
//
//	wheellock.lock.name    the lock's key; bytes that are not UTF-8 are replaced by U+FFFD
//	wheellock.lock.token   the fencing token, if there is one
//	wheellock.client.id    lock.Client.ID, with which the hash fields in Redis begin
//	wheellock.outcome      how the call ended: the text of a lock.Outcome
//	wheellock.wait         how long the call took, in seconds
//
// A span stays in memory until its hold ends, and is exported then. So the span of a lock
// that is held for a week is exported after a week.
//
// # Metrics
//
// The hooks make histograms, in seconds:
//
//	wheellock.acquire.duration     how long calls took, by wheellock.outcome; re-entries are not counted
//	wheellock.hold.duration        how long locks were held
//	wheellock.renewal.lateness     of each batch: from when its first renewal was due to its answers
//
// Count makes counters and gauges from Client.Stats, each time that metrics are read:
//
//	wheellock.acquisitions         counter, by wheellock.outcome
//	wheellock.acquire.requests     counter: scripts sent to take a lock
//	wheellock.releases             counter
//	wheellock.losses               counter, by wheellock.reason
//	wheellock.requests.unanswered  counter: requests to which no answer came in time
//	wheellock.requests.refused     counter: requests that Redis answered with an error
//	wheellock.unlocks.unanswered   counter: calls of Unlock that returned lock.ErrUnknown
//	wheellock.log.dropped          counter: log records that were dropped, because Config.Logger blocked
//	wheellock.renewals             counter: renewals that Redis acknowledged in time
//	wheellock.renewals.retried     counter: renewals sent again
//	wheellock.still                counter, in seconds: how long this process stood still while it held locks
//	wheellock.locks.held           locks held now
//	wheellock.waiters              calls that wait now
//
// The attribute wheellock.client.id tells the counters of several clients apart. No metric has
// a lock's name, because there may be millions of names.
package lockotel
