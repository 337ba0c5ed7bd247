// Package lockotel traces the locks of package lock with OpenTelemetry, and measures them.
//
//	hooks, err := lockotel.Hooks(lockotel.Config{})           // spans, and how long things take
//	client, err := lock.New(pool, lock.Config{Hooks: hooks})  // or hooks.With(yours)
//	counting, err := lockotel.Count(client, lockotel.Config{}) // counters, from Client.Stats
//	defer counting.Unregister()
//
// It is a module of its own, so that a user of package lock does not link OpenTelemetry.
// It has no goroutine. What exports spans and metrics, and how often, is the program's SDK.
//
// # Spans
//
// Each call that takes a lock is a span with the name wheellock.lock, a child of the span in
// the context that the call was given. It begins with the call.
//
//	acquired  an event: the call has the lock; until here it waited
//	released  an event: Unlock was answered; the span ends
//	lost      an event with the reason: the hold was lost; the span ends, its status is Error
//
// A call that did not get the lock is a span too, which ends with the call. Its status is
// Error unless the lock was refused. An Unlock that Redis did not answer ends the span, and
// its error is recorded. A re-entry is no span, because it is the same hold. The members of
// a MultiLock or RedLock each have a span of their own.
//
//	wheellock.lock.name    the lock's key; what is not UTF-8 in it is replaced by U+FFFD
//	wheellock.lock.token   the fencing token, if there is one
//	wheellock.client.id    lock.Client.ID, with which the hash fields in Redis begin
//	wheellock.outcome      how the call ended: the text of a lock.Outcome
//	wheellock.wait         for how many seconds it took
//
// A span is kept in memory until its hold ends, and exported then. So the span of a lock
// that is held for a week comes after a week.
//
// # Metrics
//
// By the hooks, as histograms in seconds:
//
//	wheellock.acquire.duration     how long calls took, by wheellock.outcome; re-entries are not counted
//	wheellock.hold.duration        how long locks were held
//	wheellock.renewal.lateness     of each batch: from when its first renewal was due to the answers
//
// By Count, from Client.Stats whenever metrics are read:
//
//	wheellock.acquisitions         counter, by wheellock.outcome
//	wheellock.acquire.requests     counter: scripts sent to take a lock
//	wheellock.releases             counter
//	wheellock.losses               counter, by wheellock.reason
//	wheellock.requests.unanswered  counter: requests to which no answer came in time
//	wheellock.unlocks.unanswered   counter: calls of Unlock that returned lock.ErrUnknown
//	wheellock.renewals             counter: renewals that Redis acknowledged in time
//	wheellock.renewals.retried     counter: renewals sent again
//	wheellock.locks.held           locks held now
//	wheellock.waiters              calls that wait now
//
// The counters of several clients are told apart by wheellock.client.id. No metric has a
// lock's name, because there may be millions.
package lockotel
