// Package world tests a Client of package lock against the world as it is: servers that
// hang, restart, fail over, refuse, run out of memory, give wrong answers or lose their slots,
// users with few rights, networks that are slow or cut, answers that are late or lost,
// replicas that lag, processes that are suspended, and an hour in virtual time. The tests of
// package lock use servers that work. They also have the tests that need export_test.go.
package world
