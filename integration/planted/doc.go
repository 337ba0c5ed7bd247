// Command planted measures the tests: it plants small bugs in the library, one
// after the other, and runs the tests that must find each of them.
//
//	go run ./integration/planted
//
// list.go has the bugs. Each bug breaks a promise of the documents. A bug is a
// short edit, mostly of one file: the text before, the text after, a sentence about the
// broken promise, and the tests that must fail. Nothing in the checkout is changed, because
// go test -overlay replaces the file during the build.
//
//	-list        prints the bugs and plants none
//	-only REGEX  plants the bugs whose names match
//	-part K/N    plants every Nth bug, from the Kth on; K is 0 to N-1
//	-v           prints the output of the tests, too
//	-simulate N  runs the simulation of the product in place of a bug's tests. Each of two workers
//	             runs N small worlds, and a tenth or a twentieth as many worlds of each other kind
//	-generate N  draws N bugs by -seed in the packages of -in, and plants these. It runs the
//	             tests of the bug's package, then the simulation, then the tests of lock and of world.
//	             A drawn bug that survives is reported and is no error, because many of them change no
//	             visible behaviour
//
// A line says for each bug which test has found it. A bug "survives" if its
// tests pass: then a test is missing. The exit code is 1 if a bug survives, if
// its text is not in its file exactly once, or if the edited file does not
// compile. The tests must pass without any bug; run them first.
//
// If you move or rewrite code that an entry of the list edits, change the entry so that
// it plants the same fault in the new code. go test ./integration/planted says at once
// which entries no longer apply, and plants nothing.
package main
