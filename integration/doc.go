// Package integration holds the tests that no other package can hold.
//
// Tests of the repository keep the house as it was drawn: imports run
// downwards only (imports_test.go), go.mod asks for no more than it should and
// a user of wheel links nothing else (module_test.go), the top level holds
// what it should and CHANGELOG.md has its form (layout_test.go), what README.md
// says of code, settings, names and figures is so (readme_test.go), what is logged
// has the keys that were agreed to (slog_test.go), and so is the exported API
// (api_test.go; after a change that is meant, go test ./integration -update).
//
// Tests on real Redis use what redistest starts, containers and processes, each
// where it is to be had (servers_test.go; go test -v -run OnWhichServers prints
// which). WHEELLOCK_REDIS_IMAGE names the containers' image. The topologies are
// tried on containers (topology_test.go).
// hostile_test.go puts at the keys, and on the channels, what nobody should, and
// fuzz_test.go gives the calls what nobody would; corpora are in testdata/fuzz.
// kernelflow_linux_test.go makes one TCP flow lose its packets, as root, in a network of
// its own, and sees what arrives late.
//
// What more than one package's tests need stands here too: faultproxy between
// clients and a server wherever a test breaks the network, fixture, which sets up
// clients and servers and takes them down, and bounded, which gives waits an end.
//
// The promises of lock are tried under faults by package faults (faults_test.go);
// -v prints the matrix. WHEELLOCK_SEED repeats the plan of a run, WHEELLOCK_SOAK=1h
// runs for an hour with 100,000 locks (soak_test.go; go test wants a longer -timeout):
//
//	WHEELLOCK_SOAK=1h go test -run 'Soak|DeadFlow' -timeout 80m -v ./integration
//
// With it, one TCP connection is dead for 40 s too, in a test of two minutes.
package integration
