package points

// Woven says that the product has the mutexes of this package. An overlay makes it
// true.
const Woven = false
