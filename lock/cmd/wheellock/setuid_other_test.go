//go:build !unix

package main

// becomeRoot is of systems that have a root.
func becomeRoot() { panic("there is no root here") }
