//go:build !amd64 && !arm64

package wheel

func prefetch(*Timer) {}
