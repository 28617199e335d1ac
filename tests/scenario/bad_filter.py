"""A filter with a mistake is refused, with the column and what was meant."""
import ringtail


def main(case):
    daemon = case.daemon()
    for text, column, words in (("pid = 12", 5, "=="), ("pidd == 12", 1, "pid"),
                                ("pid == 12 &&", 13, ""), ("(pid == 1 || tid == 2", 22, ")"),
                                ("pid == 12 && durration > 1ms", 14, "duration"),
                                ("duration > 1parsec", 12, "ms"), ('comm == "x', 9, ""),
                                ("ret == ENOENTT", 8, "ENOENT"),
                                ("pid == 1 and tid == 2", 10, "&&"),
                                ("pid in (1, 2", 13, "")):
        done = case.tracectl(daemon, "stream", "-p", "syscall:openat:call", "-f", text)
        lines = done.err.splitlines()
        caret = next((line for line in lines if line.strip() == "^"), "")
        shown = next((line for line in lines if text in line and "tracectl:" not in line), "")
        at = caret.find("^") - shown.find(text) + 1 if caret and shown else None
        case.check(done.code == 1 and "filter, column" in done.err and words in done.err,
                   f"{text}: {lines[0] if lines else ''}", done.code, done.err)
        case.check_equal(at, column, f"the caret is below column {column}")
    with daemon.connect() as connection:
        connection.greet()
        connection.send(ringtail.wire.message("Subscribe", probe=["syscall"], filter="pid = 12"))
        error = connection.await_frame("Error").values
        case.check(error["column"] == 5 and error["fatal"], "on the wire the column is a number",
                   error)
    deep = "(" * 2000 + "pid == 1" + ")" * 2000
    done = case.tracectl(daemon, "stream", "-p", "syscall:openat:call", "-f", deep)
    case.check(done.code == 1, "one that is nested too deep is refused", done.err)
    done = case.tracectl(daemon, "stream", "-p", "syscall:openat:call", "-f", "pid == 1 || " * 400)
    case.check(done.code == 1, "and one that is too long", done.err)
    done = case.refused("--source=bpf", "--probe=syscall:openat:call", "--filter=pid = 12")
    case.check(done.code == 1 and "column 5" in done.err, "ringtaild --filter says the same",
               done.err)
    done = case.refused("--source=bpf", "--filter=pidd == 12")
    case.check(done.code == 1 and "column 1" in done.err and "`pid`" in done.err,
               "also where nothing is always on yet, and what is wrong is a name", done.err)
    case.check_balanced(daemon)


ringtail.run(main)
