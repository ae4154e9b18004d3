"""Makes `support` importable, in the tests and in the processes they start."""

from __future__ import annotations

import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
