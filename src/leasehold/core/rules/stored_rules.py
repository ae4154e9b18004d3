"""Rules of queues and settings as stores of tables hold them; an unreadable one affects only
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.queue_config import QueueConfig, QueueRule, QueueState
from leasehold.core.model.settings import DEFINITIONS, SettingValue, check_setting
from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.errors import InvalidSettingError

_config_of: Final = msgspec.json.Decoder(QueueConfig).decode

TextOf = Callable[[str, Any], str]
"""The text in the cell with this name; raises one of UNREADABLE if it holds none."""


def plain_text(name: str, cell: Any) -> str:  # noqa: ARG001  # see TextOf
    """The text of a cell in a database that guarantees text."""
    return str(cell)


def rule_from(state: Any, config: Any, text_of: TextOf = plain_text) -> QueueRule:
    """The rule in these cells; a queue whose rule cannot be read is paused."""
    try:
        told, _, actor = text_of("state", state).partition(DELETED_BY)
        return QueueRule(QueueState(told), _config_of(text_of("config", config)), actor or None)
    except UNREADABLE as error:
        return QueueRule(QueueState.PAUSED, QueueConfig(), problem=problem_of(error))


def settings_from(
    rows: Iterable[tuple[Any, Any]], text_of: TextOf = plain_text
) -> tuple[dict[str, SettingValue], list[str]]:
    """The settings with these names and values, and sentences about those that cannot be read.

    A setting that this version does not know was set by a newer one and is left alone; an
    unreadable one counts as not set.
    """
    values: dict[str, SettingValue] = {}
    problems: list[str] = []
    for name, value in rows:
        try:
            known = text_of("its name", name)
            if known in DEFINITIONS:
                decoded = msgspec.json.decode(text_of("its value", value))
                values[known] = check_setting(known, decoded)
        except (*UNREADABLE, InvalidSettingError) as error:
            shown = name.decode(errors="replace") if isinstance(name, bytes) else name
            problems.append(
                f"the setting {shown!r} cannot be read, and counts as not set: {problem_of(error)}"
            )
    return values, problems
