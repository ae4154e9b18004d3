"""Run as a program: measures what `test_bounds` judges, in a library with budgets in proportion.

The budgets are changed before anything else of the library is imported.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.effort import THOROUGH
from support.other_budgets import change_budgets

PART: Final = 1 if THOROUGH else 10
"""Of what a store may have, and of what one write of it may do: one in so many."""


def main() -> None:
    change_budgets(lambda budget: budget // PART)
    retention = importlib.import_module("leasehold.core.model.retention")
    vars(retention)["BATCH_MAX"] //= PART
    import msgspec

    from stores.test_bounds import measured

    with tempfile.TemporaryDirectory() as folder:
        Path(sys.argv[1]).write_bytes(msgspec.json.encode(measured(Path(folder))))


if __name__ == "__main__":
    main()
