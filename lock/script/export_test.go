package script

// ExpireText stands before the scripts that expire.
var ExpireText = source("expire")
