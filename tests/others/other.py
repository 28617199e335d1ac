"""other: programs by somebody else, which were installed or are built here, with ringtail beside them."""
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))

import ringtail  # noqa: E402


def count(events, key=lambda event: event["probe"]):
    """How many there are of each kind."""
    found = {}
    for event in events:
        found[key(event)] = found.get(key(event), 0) + 1
    return found


def usdt(path, provider, *names):
    return [f"usdt:{path}:{provider}:{name}" for name in names]


def wanted(specs):
    return [word for spec in specs for word in ("-p", spec)]
