"""How a process knows which schedules its code no longer declares."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.schedule import Schedule
from leasehold.worker.modules import can_be_imported, is_being_imported, module_here

_declared_here: Final[set[tuple[str, str]]] = set()
"""The schedules that this process has declared, on any TaskQueue, by module and name."""


def note_declared(module: str, name: str) -> None:
    """Called when the code of a module declares a schedule."""
    _declared_here.add((module, name))


def is_orphan(schedule: Schedule, *, is_all_declared: bool) -> bool:
    """Whether the code of this process is known to declare the schedule no longer.

    That is known for modules that are loaded here, and for those that are gone from a package that
    is loaded here. Nothing is known about other modules, which may belong to another program. A
    module that is still being imported may have more to declare, unless `is_all_declared`.
    """
    name = schedule.draft.declared_in
    if name is None or (name, schedule.name) in _declared_here:
        return False
    module = module_here(name)
    if module is not None:
        return is_all_declared or not is_being_imported(module)
    package = name.rpartition(".")[0]
    return module_here(package) is not None and not can_be_imported(name)
