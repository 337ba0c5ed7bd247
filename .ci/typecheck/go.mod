module github.com/wheellock/wheellock/.ci/typecheck

go 1.25.0

require golang.org/x/tools v0.44.0

require (
	golang.org/x/mod v0.35.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
)
