package holders

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
)

// A driver that the report does not know has no colour and no remark.
func TestDriversThatRunAreThoseOfTheReport(t *testing.T) {
	var names []string
	for _, d := range Drivers() {
		names = append(names, d.Name)
	}
	require.Equal(t, report.Drivers(), names)
}
