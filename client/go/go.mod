module ringtail/probe

go 1.18
