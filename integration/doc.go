// Package integration holds the tests that no other package can hold.
//
// Tests of the repository keep the house as it was drawn: imports run
// downwards only (imports_test.go), go.mod asks for no more than it should and
// a user of wheel links nothing else (module_test.go), the top level holds
// what it should (layout_test.go), the code in README.md compiles and runs
// (readme_test.go), and the exported API is the one that was agreed to
// (api_test.go; after a change that is meant, go test ./integration -update).
//
// Tests on real Redis use what redistest starts, and the promises of lock are
// tried there under faults.
package integration
