package redistest

// StartOnPorts is Start on the ports that pickPort gives.
var StartOnPorts = start
