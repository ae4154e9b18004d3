"""The command line as a person uses it: a folder, a shell, one command after the other."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.nursery import Nursery


@dataclass(frozen=True)
class Done:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def jsonl(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Shell:
    """A folder with a store in it (`leasehold.db`), and the command line as real processes."""

    folder: Path
    nursery: Nursery

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "LEASEHOLD_STORE"}
        state = self.folder.with_name(f"{self.folder.name}-state")
        said = {"NO_COLOR": "1", "COLUMNS": "100", "TZ": "UTC", "XDG_STATE_HOME": str(state)}
        return {**kept, **said}

    def command(self, *arguments: str) -> list[str]:
        """The argument list that starts the command line."""
        return [sys.executable, "-m", "leasehold.cli", *arguments]

    def run(self, *arguments: str, stdin: str = "", timeout: float = 180) -> Done:
        """Run one command to its end, off a terminal."""
        return Done(*self.nursery.run(arguments, self.folder, self.environment, stdin, timeout))

    def ok(self, *arguments: str, stdin: str = "") -> Done:
        """Run one command that must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, done
        return done


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables show local times; what is compared with them is written for UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def shell(tmp_path: Path, commands: Nursery) -> Shell:
    return Shell(tmp_path, commands)
