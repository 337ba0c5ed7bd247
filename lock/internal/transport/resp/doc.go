// Package resp bounds what a server's answers may cost this process.
//
// redigo believes each length that an answer names. An array of four billion
// elements, a string of a terabyte, or arrays in arrays without end would end the
// process, and a line without end would fill the memory. So each connection that
// the library dials has a Conn between redigo and the network, above TLS. The
// Conn reads what passes:
//
//   - From the requests it learns which have large answers, how many keys a
//     script was sent, and the longest argument.
//   - It checks each header of an answer before redigo sees it. An answer that
//     is larger than its request allows is an [AnswerError], and the connection
//     is not read any more.
//
// These are the limits of an answer:
//
//	small   4 elements for each key sent and 64 more; 64 KiB, 32 bytes for each key,
//	        and the length of the longest argument; for the library's own scripts and
//	        messages, and for the commands that noteCommand lists
//	large   1,048,576 elements; 16 MiB; for scripts with script.Script.Large and those
//	        of a program, for a program's messages, and for all other commands
//
// Arrays are at most six deep, and a line is at most as long as a small answer. The
// most keys and the longest argument that any request had so far count for all
// later answers of the connection, so no queue of requests is kept.
//
// A Conn can also be read without waiting, and says when a whole answer is there
// (look.go). Callers of package pipe that are alone use this to read their answers.
//
// A connection has no limits if a program's own pool dials it, or if its dial function
// or TLS is among options of redigo (options.go). [Receive] works on all connections.
// It turns a panic of redigo into an error, so that the connection is closed.
package resp
