"""Every mistake in a file or a flag is fatal, names its place and the nearest right word."""
import ringtail


def main(case):
    def check(text, flags, code, *words):
        done = case.refused(*flags, config=text)
        shown = text.strip().replace("\n", " / ") or " ".join(flags)
        case.check(done.code == 2 and f"[{code}]" in done.err and
                   all(word in done.err for word in words),
                   f"{shown}: exit 2, {code}, says {', '.join(words)}", done.code, done.err)

    check("ring-sise = 1MiB\n", [], "config-unknown-key", ".conf:1", "did you mean", "ring-size")
    check("\n# a comment\nhistory-size = 16MB8\n", [], "unit-unknown", ".conf:3", "MiB")
    check("history-age = 30parsecs\n", [], "unit-unknown", "history-age")
    check("workers = 1\nworkers = 2\n", [], "config-duplicate", ".conf:2", "line 1")
    check("ring-size = 1000KiB\n", [], "config-not-power-of-two", "512KiB", "1MiB")
    check("workers = 100000\n", [], "config-out-of-range", "between")
    check("low-latency = perhaps\n", [], "config-bad-flag", "neither yes nor no")
    check("replay-pace = fasst\n", [], "config-bad-choice", "did you mean", "fast")
    check("low-latency\n", [], "config-no-value", "name = value")
    check("version = yes\n", [], "config-flag-only", "--version")
    check("", ["--listen=tcp:10.0.0.1:7117"], "listen-needs-tls", "10.0.0.1")
    check("", ["--ring-sizze=1MiB"], "config-unknown-flag", "did you mean", "--ring-size")
    check("", ["--workers=1", "--workers=2"], "config-duplicate", "workers")
    check("", ["--batch-interval=1parsec"], "unit-unknown", "--batch-interval")
    check("", ["--source=bfp"], "config-bad-choice", "bpf")
    check("", ["surplus"], "config-operand", "surplus")
    check("", ["--ring-size"], "config-no-value", "--ring-size")

    done = case.refused("--check-config", "--ring-size=2MiB", config="workers = 2\n")
    case.check(done.code == 0 and "ring-size = 2MiB" in done.out and "workers = 2" in done.out,
               "--check-config prints what file and flags come to", done.out, done.err)
    again = case.refused("--check-config", config="\n".join(
        line for line in done.out.splitlines() if not line.startswith("listen")))
    case.check(again.code == 0, "and that is a file again", again.err)
    for words, output, why in (("--check-config --user=root", ">/dev/full", "No space left on device"),
                               ("--help", ">/dev/full", "No space left on device"),
                               ("--version", ">&-", "Bad file descriptor")):
        done = case.start("sh", "-c", f"exec {ringtail.BUILD}/ringtaild {words} {output}").wait()
        case.check(done.code == 1 and f"[cannot-write] cannot write: {why}" in done.err,
                   f"{words} {output}: exit 1, {why}", done.code, done.err)
    secret = case.write("open.secret", "Bearer s3cret")
    for words, exit_code, code, says in (
            (["--export=loki:ftp://a"], 2, "export-url", "export: `loki:ftp://a`"),
            (["--export=loki:http://me:s3cret@a"], 2, "export-url", "@FILE"),
            (["--export=loki:http://a", f"--export-header=Authorization: @{secret}"], 1,
             "secret-file-open", "can be read by everybody"),
            (["--export=loki:http://a", f"--export-ca={case.path('none')}"], 1, "export-ca",
             "No such file")):
        tried, started = case.refused("--check-config", *words), case.refused(*words)
        for done, code_wanted in ((tried, exit_code), (started, 1)):
            case.check(done.code == code_wanted and f"[{code}]" in done.err and says in done.err and
                       "s3cret" not in done.err + done.out, f"{words[-1]}: {code}, says {says}",
                       done.code, done.err)
    done = case.refused("--check-config", "--export=loki:http://a", "--export-filter=pid = 3")
    case.check(done.code == 2 and "export-filter: " in done.err and "column 5" in done.err,
               "--check-config reads filters too", done.code, done.err)
    done = case.refused("--export=loki:http://a", "--export-filter=pidd == 3", "--source=bpf")
    if "[bpf-no" not in done.err:
        case.check(done.code == 1 and "export-filter: " in done.err and "column 1" in done.err and
                   "pid" in done.err, "a start has names to look up, too", done.code, done.err)
    done = case.refused("--probe=syscall:openatt:call", "--source=bpf")
    if "[bpf-no" not in done.err:
        case.check(done.code == 1 and "[unknown-probe]" in done.err and
                   "syscall:openat:call" in done.err,
                   "a probe that is not there: nearest names", done.code, done.err)


ringtail.run(main)
