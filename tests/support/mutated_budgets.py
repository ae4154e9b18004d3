"""Run as a program: the library with budgets that bound nothing; tells which cases notice.

The budgets are changed before anything else of the library is imported, so that the change reaches
default arguments and the texts of statements, too.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

WITHOUT_END: Final = 10**9

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.other_budgets import change_budgets

    change_budgets(lambda _: WITHOUT_END)

import pytest  # noqa: E402

from leasehold.env import Env, ManualClock  # noqa: E402
from leasehold.errors import LeaseholdError  # noqa: E402
from leasehold.stores.memory import MemoryStore  # noqa: E402
from leasehold.stores.sqlite import SQLiteStore  # noqa: E402
from support.budgets import IN_PLAY, InPlay, is_kept  # noqa: E402
from support.counted_writes import Scene  # noqa: E402

HERE: Final = ("memory", "sqlite")
NOTICED: Final = [
    f"{each.case.__name__} on {kind}" for each in IN_PLAY for kind in HERE if kind in each.stores
]


def notices(each: InPlay, kind: str, folder: str) -> bool:
    clock = ManualClock()
    env = Env(clock=clock)
    store = (
        MemoryStore(env=env, capacity=None)
        if kind == "memory"
        else SQLiteStore(Path(folder) / f"{each.case.__name__}.db", env=env, durability="normal")
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            return not is_kept(each, Scene(store, clock, patch))
    except LeaseholdError:
        return True  # No page is as long as that.
    finally:
        store.close()


def main() -> None:
    """Tell of each case that notices, line by line."""
    with tempfile.TemporaryDirectory() as folder:
        for each in IN_PLAY:
            for kind in HERE:
                if kind in each.stores and notices(each, kind, folder):
                    sys.stdout.write(f"{each.case.__name__} on {kind}\n")


if __name__ == "__main__":
    main()
