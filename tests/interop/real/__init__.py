"""real: the servers of other projects, run and asked; the scenarios' harness is at hand."""
import os
import sys

sys.dont_write_bytecode = True  # the tree stays as it was
sys.path.insert(1, os.path.join(os.path.dirname(__file__), "..", "..", "scenario"))

import ringtail  # noqa: E402

ringtail.SECONDS_MAX = 300      # back-off after back-off, and servers that take their time
