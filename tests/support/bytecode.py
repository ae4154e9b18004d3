"""Compiled modules are kept for the processes that tests start, whatever the surroundings say.

Hundreds of them import Leasehold. Where Python is told to write no bytecode, as in many containers
(PYTHONDONTWRITEBYTECODE), each would compile all of it anew, which takes longer than most tests.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import Final

PLACE: Final = os.path.join(sys.prefix, "pycache")


def keep_bytecode() -> None:
    """In a folder of the virtual environment, so that nothing is written beside the sources."""
    if not sys.dont_write_bytecode or not os.access(sys.prefix, os.W_OK):
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = PLACE
    sys.dont_write_bytecode = False


def forget_made_modules() -> None:
    """Modules that tests have written are gone with their folders."""
    shutil.rmtree(PLACE + tempfile.gettempdir(), ignore_errors=True)
