// Package bypass has calls that a test must find.
package bypass

import "log/slog"

type logger struct{ *slog.Logger }

func bypass(l logger, r record.Record, more []any) {
	l.Log(record.HeldDropped, "m")
	l.Warn("lock: something")
	l.ErrorContext(nil, "lock: something")
	l.Log(r, "m")
	l.Log(nil, slog.LevelWarn, "lock: something")
	l.Log(record.HeldDropped, "m", 1)
	l.Log(record.HeldDropped, more...)
	l.WouldLog(record.TimeRefused)
	slog.Default()
	record.New(l.Logger)
}
