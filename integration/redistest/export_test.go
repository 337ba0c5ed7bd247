package redistest

// StartOnPorts is Start on the ports that pickPort gives.
var StartOnPorts = start

// FreePort is how Start picks a port.
var FreePort = freePort

// Pipe is what virtual connections are made of.
var Pipe = pipe
