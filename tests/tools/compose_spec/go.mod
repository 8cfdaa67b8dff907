module highwater/compose-spec

go 1.19

require github.com/compose-spec/compose-go/v2 v2.16.2
