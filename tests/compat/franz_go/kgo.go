// Package franz_go pins the version of franz-go whose tests are run: `go test -c` needs a module that requires it.
package franz_go

import _ "github.com/twmb/franz-go/pkg/kgo"
