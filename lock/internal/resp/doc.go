// Package resp bounds what a server's answers may cost this process.
//
// redigo believes each length that an answer names: an array of four billion
// elements or a string of a terabyte ends the process, so do arrays in arrays
// without end, and a line without end fills the memory. So each connection that
// the library dials has a Conn between redigo and the network, above TLS. It
// reads along:
//
//   - Of the requests it notes which are answered at length, how many keys a
//     script was sent, and the longest argument.
//   - Of the answers it checks each header before redigo sees it. An answer that
//     is larger than its request explains is an [AnswerError], and nothing of the
//     connection is read any more.
//
// What an answer may be:
//
//	small   4 elements for each key sent and 64 more; 64 KiB, 32 bytes for each key,
//	        and as many as the longest argument had: of scripts, of pub/sub, and of
//	        every request that is not known to be answered at length
//	large   1,048,576 elements; 16 MiB: see [Large]
//
// Arrays are at most six deep, and a line is at most as long as a small answer. What
// is named in a request counts for the rest of the connection, so no queue of
// requests is kept.
//
// Connections that a program's own pool dials are not bounded. [Receive] is for all:
// a panic of redigo's becomes an error, so that the connection is given up.
package resp
