"""The name of this program, which has two."""

from __future__ import annotations

import os
import sys


def program() -> str:
    """The name under which it was called."""
    name = os.path.basename(sys.argv[0])
    return name if name in ("leasehold", "queuectl") else "leasehold"
