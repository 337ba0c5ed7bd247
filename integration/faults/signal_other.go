//go:build !unix

package faults

import (
	"errors"
	"os"
)

func suspend(*os.Process) error { return errors.ErrUnsupported }

func unsuspend(*os.Process) error { return errors.ErrUnsupported }
