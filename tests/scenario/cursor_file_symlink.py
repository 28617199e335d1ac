"""The file of a place is written beside itself and renamed. Whoever else may write in that directory cannot
have tracectl write elsewhere: what has the new file's name is neither followed nor written to, and what a
crash left there is no obstacle."""
import os

import ringtail


def main(case):
    daemon = case.daemon("--probe=syscall:getppid:call", f"--filter=pid == {os.getpid()}")
    directory = case.path("shared")
    os.mkdir(directory)
    place, new = os.path.join(directory, "place"), os.path.join(directory, "place.new")
    victim = case.write("victim", "precious\n")
    link = case.write("linked", "precious too\n")

    def save():
        done = case.tracectl(daemon, "stream", "-o", "none", "--duration", "100ms", "--cursor", place)
        case.check_equal(done.code, 0, "tracectl ends well", done.err)
        with open(place, encoding="utf-8") as file:
            case.check(file.read().startswith("ringtail cursor 1\nat "), "the place is saved")
        case.check(not os.path.islink(place) and not os.path.lexists(new), "as a file of its own")
        os.unlink(place)

    os.symlink(victim, new)
    save()
    os.symlink(case.path("nowhere"), new)
    save()
    os.link(link, new)
    save()
    case.write("shared/place.new", "half a pla")
    save()
    case.check(not os.path.exists(case.path("nowhere")), "nothing was made where a link led")
    for path, text in (victim, "precious\n"), (link, "precious too\n"):
        with open(path, encoding="utf-8") as file:
            case.check_equal(file.read(), text, "what a link led to is as it was")
    os.mkdir(new)
    done = case.tracectl(daemon, "stream", "-o", "none", "--duration", "100ms", "--cursor", place)
    case.check(done.code == 1 and "place.new" in done.err, "what cannot be removed is told", done.err)
    os.rmdir(new)
    with open(place, "wb") as file:
        file.write(b"ringtail cursor 1\nat x\noutput 0\n\0more\n")
    done = case.tracectl(daemon, "stream", "-o", "none", "--duration", "100ms", "--cursor", place)
    case.check(done.code == 1 and "bad-cursor-file" in done.err, "a NUL in it is refused", done.err)
    case.check_balanced(daemon)


ringtail.run(main)
