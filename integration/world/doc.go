// Package world tests a Client of package lock against the world as it is: servers that
// hang, restart, fail over, lie about themselves or lose their slots, networks that are slow
// or cut, replicas that lag, and an hour in virtual time. What a lock promises on a server
// that works is tested in package lock.
package world
