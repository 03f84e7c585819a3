module loops

go 1.26.0

require github.com/tinfoilsh/encrypted-http-body-protocol v0.3.1

require (
	github.com/sirupsen/logrus v1.9.4 // indirect
	golang.org/x/crypto v0.48.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
)
