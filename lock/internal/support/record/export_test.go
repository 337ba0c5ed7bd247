package record

// Queued is how many records wait at most.
const Queued = queued

// Remembered is how many periods of r the Logger remembers.
func Remembered(l *Logger, r Record) int { return len(l.written[r].periods) }
