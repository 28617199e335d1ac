"""Programs that run everywhere, and end soon: strace and ringtail watch them beside each other."""

FEW = ("sh -c 'echo a | tr a b'", "ls -l /etc/apt", "touch -d 2020-01-01 {dir}/t", "timeout 5 true")
# Also in the long form: with the one of the scenario, forty.
MORE = (
    "cat /etc/hostname", "cp /etc/hostname {dir}/copy", "mv {dir}/copy {dir}/moved", "tar cf {dir}/a.tar /etc/apt",
    "find /etc/apt", "rm {dir}/moved", "head -c 10 /dev/zero", "sort /etc/passwd", "wc -l /etc/group",
    "grep root /etc/passwd", "gzip -f {dir}/a.tar", "dd if=/dev/zero of={dir}/d bs=512 count=3", "stat /etc",
    "readlink /proc/self/exe", "env true", "sed -n 1p /etc/passwd", "awk 1 /etc/passwd", "cut -d: -f1 /etc/passwd",
    "uniq /etc/group", "tail -n 2 /etc/passwd", "tee {dir}/tee", "ln -s a {dir}/link", "mkdir {dir}/made",
    "chmod 600 {dir}/t", "md5sum /etc/passwd", "diff /etc/passwd /etc/group", "id", "date", "uname -a", "df /",
    "du /etc/apt", "ps", "bash -c 'ulimit -n; sleep 0.01 & wait'", "perl -e 'select undef, undef, undef, 0.01'",
    "python3 -c 'import os; os.sched_yield()'",
)
