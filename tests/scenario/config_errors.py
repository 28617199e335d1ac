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
    done = case.refused("--probe=syscall:openatt:call", "--source=bpf")
    if "[bpf-no" not in done.err:
        case.check(done.code == 1 and "[unknown-probe]" in done.err and
                   "syscall:openat:call" in done.err,
                   "a probe that is not there: nearest names", done.code, done.err)


ringtail.run(main)
