"""The page about settings names every setting, as the registry has it."""

from __future__ import annotations

from pathlib import Path

from leasehold.core.model.settings import DEFINITIONS, SettingDefinition

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
COLUMNS = ("setting", "default", "may be", "what it means", "applies")


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def row(definition: SettingDefinition) -> str:
    # The examples of durations stand once, above the table.
    allowed = definition.allowed.replace(", such as 90, 90s, 5m, 2h30m or 1d", "")
    default = definition.show(definition.default)
    return line(f"`{definition.name}`", default, allowed, definition.help, definition.acts)


def table() -> str:
    ruler = line(*["---"] * len(COLUMNS))
    return "\n".join([line(*COLUMNS), ruler, *map(row, DEFINITIONS.values())])


def test_the_table_is_the_registrys() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), f"it should say:\n{table()}"
