"""How much memory this process uses."""

from __future__ import annotations

import os
import resource
import sys


def resident_mb() -> float:
    """The process's resident memory in MiB, or its peak if only that is known."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            pages = int(statm.read().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE") / (1024 * 1024)
