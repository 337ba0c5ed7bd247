//go:build !unix

package main

// becomeRoot is never called, because only Unix has a root.
func becomeRoot() { panic("there is no root here") }
