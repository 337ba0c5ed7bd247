package redistest

// StartOnPorts is Start on the ports that pickPort gives.
var StartOnPorts = start

// Printed reads what a server's program prints for --version.
var Printed = parseVersion
