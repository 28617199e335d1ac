module ringtail/reader

go 1.18

require google.golang.org/protobuf v1.33.0

require github.com/klauspost/compress v1.16.7
