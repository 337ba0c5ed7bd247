// Package integration has the tests that cross package borders, and what the
// tests of several packages share.
//
// # Tests of the repository
//
//	imports_test.go  imports go downwards only
//	module_test.go   go.mod asks for nothing that it should not, and a user of wheel links nothing else
//	readme_test.go   README.md and the pages of lock are right about code, settings, names and figures
//	api_test.go      the exported API is the agreed one; after an intended change
//	                 run go test ./integration -run API -update
//
// # Tests on real Redis
//
// redistest starts processes and containers, as far as the machine has them
// (servers_test.go). go test -v -run OnWhichServers prints which. One test always runs in
// a container where a Docker engine runs: TestALockOnEachKindOfServer.
// WHEELLOCK_REDIS_IMAGE names the image of the containers. topology_test.go
// tests Sentinels and Clusters in containers. hostile_test.go puts wrong values
// at the keys and on the channels. fuzz_test.go gives wrong arguments to the
// calls; its corpora are in testdata/fuzz. kernelflow_linux_test.go makes one
// TCP flow lose its packets, as root, in a network namespace of its own, and
// looks at what arrives late. Package world tests a client against servers and
// networks that are sick.
//
// # The tests' own test
//
// planted is a command that plants small bugs in the library and says which of
// them no test finds.
//
// # Packages for other tests
//
//	bounded     gives every wait an end
//	fixture     sets up clients and servers, and takes them down
//	faultproxy  stands between clients and a server where a test breaks the network
//	stranger    waits for a lock as Redisson does
//	points      has the places at which a scheduler stops the goroutines of the product
//	faults      tests the promises of package lock under faults
//
// faults_test.go runs the matrix of faults; -v prints it. Three rows always run.
// WHEELLOCK_FAULTS=all runs all rows and the flawed clients that the checks must find
// out, the tests on containers, and the tests of all packages that wait long for
// failovers and restarts. It also gives other tests larger numbers. WHEELLOCK_SEED
// repeats the plan of a run.
//
// WHEELLOCK_FLEET=1 runs processes of an earlier commit together with processes of this
// commit (fleet_test.go).
package integration
