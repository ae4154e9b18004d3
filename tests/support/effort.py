"""How much is tried: a part in every run of the suite, all of it with LEASEHOLD_THOROUGH=1.

Chance finds as much in three short runs as in one that is three times as long, and the suite is run
often. What is tried one by one (every verb, every clause, every column) is never left out; where it
is tried in several ways, each is tried in one of them, and all of them are met.
"""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = os.environ.get("LEASEHOLD_THOROUGH") == "1"


def drawn(count: int, one_in: int = 3) -> int:
    """How many examples, seeds or steps to draw where `count` are drawn in a thorough run."""
    return count if THOROUGH else -(-count // one_in)
