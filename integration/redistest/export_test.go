package redistest

// StartOnPorts is Start on the ports that pickPort gives.
var StartOnPorts = start

// Pipe is what virtual connections are made of.
var Pipe = pipe
