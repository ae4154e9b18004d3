"""Options from the fields of a struct: whatever a later QueueConfig has, the command line has."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Literal

import click
import msgspec
import pytest
from click.testing import CliRunner

from leasehold.cli import rules
from leasehold.core.model.retry import RetryPolicy
from leasehold.documents.described import described


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of every kind that a config may get."""

    limit: int | None = None
    """How many at
    once."""
    factor: float = 3600.0
    """How fast they age."""
    wait_seconds: float | None = None
    fifo_mode: bool = False
    """Strictly in order."""
    label: str | None = None
    misfire: Literal["skip", "once"] = "skip"
    per_key: dict[str, int] | None = None
    retry: RetryPolicy | None = None


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command with the options of Later, and answers with the rules it got."""
    monkeypatch.setattr(rules, "QueueConfig", Later)
    seen: list[dict[str, Any]] = []

    @click.command()
    @rules.rule_options
    def create(rules: dict[str, Any]) -> None:
        seen.append(rules)

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(create, arguments)
        return seen.pop() if result.exit_code == 0 and seen else result

    return run


def test_every_kind_of_field_is_understood(given: Any) -> None:
    assert given() == {}
    assert given(
        "--limit", "5", "--factor", "2", "--wait-seconds", "1h30m", "--fifo-mode", "--label", "x",
        "--misfire", "once", "--per-key", '{"a":1}',
    ) == {
        "limit": 5, "factor": 2.0, "wait_seconds": 5400.0, "fifo_mode": True, "label": "x",
        "misfire": "once", "per_key": {"a": 1},
    }  # fmt: skip
    assert given("--no-fifo-mode", "--limit", "none", "--per-key", "NONE") == {
        "fifo_mode": False, "limit": None, "per_key": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [("--limit", "1.5"), ("--factor", "none"), ("--misfire", "never"), ("--per-key", '{"a":"b"}')],
)
def test_what_does_not_fit_is_a_usage_error(given: Any, arguments: tuple[str, ...]) -> None:
    assert given(*arguments).exit_code == 2


def test_help_comes_from_the_texts_below_the_fields(given: Any) -> None:
    assert described(Later) == {
        "limit": "How many at once.",
        "factor": "How fast they age.",
        "fifo_mode": "Strictly in order.",
    }
    assert "How fast they age." in given("--help").output


def test_without_source_there_are_no_texts_but_all_options() -> None:
    script = (
        "import msgspec\n"
        "from leasehold.documents.described import described\n"
        "print(described(msgspec.defstruct('Made', [('one', int, 1)])))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "{}\n"
