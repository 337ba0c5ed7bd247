// Command wheellock runs a command while it holds a Redis lock, so that the command
// runs on one machine at a time. It ends the command before another can have the lock.
//
//	wheellock run [flags] NAME -- command [argument...]
//	wheellock inspect [-json] [flags] NAME
//	wheellock unlock -force [flags] NAME
//	wheellock check [-prefix PREFIX] [flags]
//
// Install it with
//
//	go install github.com/wheellock/wheellock/lock/cmd/wheellock@latest
//
// The lock is a plain Mutex of package lock, in Redisson's format: programs in Go and
// Java that use the same name and the same Redis exclude the command too.
//
// # Use
//
// In a crontab, where a run that finds the lock held is left out:
//
//	*/5 * * * *  /usr/local/bin/wheellock run -quiet nightly -- /usr/local/bin/report
//
// In a unit of systemd, of a service that is to run on one of several machines:
//
//	[Service]
//	Environment=WHEELLOCK_REDIS=redis://redis.example:6379
//	ExecStart=/usr/local/bin/wheellock run -wait forever billing -- /usr/local/bin/billing
//	KillMode=mixed
//	Restart=always
//	SuccessExitStatus=143
//
// KillMode=mixed sends SIGTERM to wheellock alone, which passes it on. 143 is what it
// returns when SIGTERM has ended the command. In a script:
//
//	wheellock run -wait 10m deploy -- ./deploy.sh <<'END'
//	...
//	END
//
// # Flags
//
//	-redis URL      redis://user:password@host:6379/0, rediss:// for TLS,
//	                unix:///path, or host:port; default redis://127.0.0.1:6379
//	-cluster LIST   host:port,host:port, some nodes of a Redis Cluster
//	-sentinel LIST  host:port,host:port/MASTER, the sentinels of a master. After a
//	                question mark: db, sentinel_user, sentinel_password
//	-wait TIME      how long to wait for the lock; default 0, one try. "forever", or
//	                a negative time, is without limit
//	-lease TIME     how long others wait if this process or machine dies, from 1s;
//	                default 30s. The lock is renewed every third of it
//	-grace TIME     what the command has to end by itself when the lock is lost, at
//	                most half of the lease; default 10s, or a third of a shorter lease
//	-quiet          say nothing if another has the lock
//	-json           of inspect: print JSON
//	-force          of unlock: it does nothing without
//	-prefix PREFIX  of check: what the names of locks begin with
//
// A list may begin with redis://user:password@, or rediss:// for TLS. A time is a
// number of seconds, or like 500ms, 30s, 5m. Flags stand before or after NAME.
//
// # Environment
//
// WHEELLOCK_REDIS, WHEELLOCK_CLUSTER and WHEELLOCK_SENTINEL stand for the flags, so that
// no password is seen in a list of processes; one of them may be set. A flag wins. The
// command gets all variables, and
//
//	WHEELLOCK_NAME    the name of the lock
//	WHEELLOCK_TOKEN   the fencing token: a number that rises from holder to holder
//	WHEELLOCK_HOLDER  what a holder's id begins with in "wheellock inspect"
//
// The token of a plain lock is known to its holder alone; inspect shows that of a
// FencedMutex.
//
// # Exit status
//
// That of the command, 128+n if signal n has ended it, or
//
//	120  the lock was not acquired, because another has it
//	121  the lock was lost, and the command was ended, or may have run without it
//	122  Redis does not answer or refuses, so it is not known who has the lock
//	125  wrong usage
//	126  the command cannot be run
//	127  the command is not found
//
// check returns 1 if something is missing on Redis.
//
// A command may use these itself; wheellock writes a line to the standard error when it
// means one. 126 and 127 are mostly found out before Redis is asked. With 120, 122, 125,
// 126 and 127 the command was not run.
//
// # When the lock is lost
//
// SIGTERM, and SIGCONT, go to the process group of the command; after the grace SIGKILL
// does, and at the latest a twentieth of the lease, or 1 s, before the end of trust. That
// is the time until which Redis keeps the lock for certain. So if Redis cannot be
// reached, SIGTERM is sent while the lock is still held: with the defaults 18 s after
// the last renewal. A command that was told to end is ended, even if Redis comes back.
//
// If somebody deletes the lock, or Redis loses it, another may have it at once. That is
// found out at the next renewal, within a third of the lease. Let what the command
// writes to check WHEELLOCK_TOKEN where that matters.
//
// If the command ends while Redis does not answer, but before it was told to, the status
// is its own: it had the lock all the time. Release is tried for 3 s; then the lock is
// free when its lease is over.
//
// # Signals
//
// SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on
// to the process group of the command. One that is ignored stays so, for nohup. The
// lock is kept for as long as the command lives, whatever it does with the signal, and
// while it is stopped. Before the command is started, the first four end the wait, with
// status 128+n.
//
// At a terminal, the command gets the terminal when it reads from it, or at once if its
// input and output are the terminal. Ctrl-C reaches it either way, and ends the script
// that has called wheellock too, unless the command handles it. Ctrl-Z suspends both. The
// lock is then not renewed; if it is lost, fg ends the command.
//
// # What is not covered
//
//   - What the command leaves running in the background when it ends works on without
//     the lock. When the lock is lost it is ended too, if it is in the same process group.
//   - If wheellock is killed (SIGKILL), the command is killed with it on Linux. What it
//     has started is not, and elsewhere the command is not either. systemd ends all.
//   - If wheellock is stopped (SIGSTOP), or the machine stands still, nobody ends the
//     command in time; it is ended when they go on.
//   - On Windows there are no signals: the command is killed when SIGTERM would be sent,
//     the default grace is 0, and what it has started is not known. Ctrl-C reaches the
//     command by itself, because it shares the console.
//   - Systems other than Linux and macOS: the command never gets the terminal.
package main
