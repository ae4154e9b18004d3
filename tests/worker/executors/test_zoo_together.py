"""Hostile tasks of all executors side by side in one worker."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from support.effort import drawn
from support.zoo.members import EVERYWHERE, members_of
from support.zoo.visit import Zoo

APART = {
    # Whoever closes a descriptor of a process with many threads closes, now and then, another's.
    "close_standard_descriptors",
    "close_standard_streams",
    "close_the_selector",
    "print_bytes",
}
JOBS = 60


@pytest.mark.parametrize("seed", [1, 2][: drawn(2)])
def test_hostile_tasks_side_by_side_end_once_each(tmp_path: Path, seed: int) -> None:
    everybody = [
        (where, member)
        for where in EVERYWHERE
        for member in members_of(where)
        if member.name not in APART
    ]
    zoo = Zoo(tmp_path, "thread")
    zoo.let_all_loose(Random(seed).sample(everybody, JOBS))
    zoo.close()
