"""A class name means one thing: whoever reads it in one file must not think of another one."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path, PurePath
from typing import NamedTuple

import leasehold

SOURCE = Path(leasehold.__file__).parent
CLASS = re.compile(r"^class ([A-Z]\w*)(\([^:]*\))?:", re.MULTILINE)
"""A class of a module that is not private to it, and its bases."""

ALLOWED = {
    "ManualClock": "the testing kit's is that of env.py, and takes durations as people write them",
    "NewJob": "the same thing in Python and in the service's documents; users know both by it",
    "Queues": "a part of TaskQueue; in the service's documents the list of them",
    "Scenario": "what to run, documented for the users of the simulator and of the soak",
    "Schedules": "`queue.schedules`; in the service's documents the list of them",
    "Settings": "`queue.settings`; in the service's documents the list of them",
}
"""Names that mean two things all the same, and why."""


class Definition(NamedTuple):
    file: PurePath
    is_protocol: bool

    @property
    def store(self) -> str | None:
        """The store to whose folder it belongs."""
        return self.file.parts[1] if self.file.parts[0] == "stores" else None


def classes() -> dict[str, list[Definition]]:
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name, bases in CLASS.findall(path.read_text()):
            found[name].append(Definition(path.relative_to(SOURCE), "Protocol" in bases))
    return found


def means_one_thing(definitions: list[Definition]) -> bool:
    """Whether they are one class, or what each store has made of one idea.

    A store's class may be named like its counterparts in the folders of other stores, and like the
    protocol of the core that all of them implement.
    """
    stores = [each.store for each in definitions if each.store is not None]
    others = [each for each in definitions if each.store is None]
    if len(set(stores)) < len(stores) or len(others) > 1:
        return False
    return not (stores and others) or (others[0].file.parts[0] == "core" and others[0].is_protocol)


def test_a_class_name_means_one_thing() -> None:
    found = classes()
    several = {
        name: [str(each.file) for each in definitions]
        for name, definitions in found.items()
        if not means_one_thing(definitions)
    }
    assert len(found) > 100
    assert {name: files for name, files in several.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() <= several.keys(), "a name that means one thing needs no permission"
