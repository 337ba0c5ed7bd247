// Package world tests a Client of package lock against the world as it is: servers that
// hang, restart, fail over, refuse, run out of memory, lie about themselves or lose their
// slots, users with few rights, networks that are slow or cut, answers that are late or lost,
// replicas that lag, processes that are suspended, and an hour in virtual time. What a lock
// promises on a server that works is tested in package lock, and so is what only package
// lock's export_test.go can see, such as its log.
package world
