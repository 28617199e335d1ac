"""cache: where downloads and what is built of them are kept: $RINGTAIL_CACHE; or ~/.cache/ringtail, if somebody
has made it; else build/cache, which goes with `make clean`."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def directory(of):
    """The directory for that, which is there."""
    home = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                        "ringtail")
    top = os.environ.get("RINGTAIL_CACHE") or \
        (home if os.path.isdir(home) else os.path.join(ROOT, "build", "cache"))
    path = os.path.join(os.path.abspath(top), of)
    os.makedirs(path, exist_ok=True)
    return path
