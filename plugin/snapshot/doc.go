// Package snapshot keeps the inputs of a zone in a file, so that a server that
// restarts while the API server is away has answers.
//
// The file is written whole and atomically, by its own user only. It is
//
//	8 bytes   "k8smcs" and two zeros
//	4 bytes   version of all that follows the head
//	8 bytes   length of the body
//	4 bytes   CRC-32C of the 20 bytes before: the head
//	body      header, imports, slices; see encode.go
//	32 bytes  SHA-256 of all before
//
// with numbers in big-endian order. A flipped byte, an early end and another
// version are told apart. Against who may write the file nothing helps: what
// stands in it is served.
package snapshot
