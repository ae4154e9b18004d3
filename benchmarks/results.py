"""The figures of one run against other queues, as they are kept and shown."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import apsw

from benchmarks.__main__ import fsync_millis
from benchmarks.rounds import Sizes
from leasehold.stores.sqlite.disk.files import file_system


@dataclass
class Row:
    """What was found out about one contender."""

    version: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """By scenario, why it has no figures."""
    done: list[str] = field(default_factory=list)
    """The scenarios that were measured."""


@dataclass
class Results:
    """All of one run."""

    machine: str
    sizes: Sizes
    rows: dict[str, Row] = field(default_factory=dict)
    minutes: float = 0.0

    def __post_init__(self) -> None:
        # A run that is resumed goes on counting.
        self._started = time.monotonic() - 60 * self.minutes

    @classmethod
    def of_this_machine(cls, folder: Path, sizes: Sizes) -> Results:
        machine = (
            f"{os.cpu_count()} cores, {platform.system()}, {file_system(folder)}, "
            f"append + fdatasync of 4 KiB {fsync_millis(folder):.2f} ms, "
            f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}"
        )
        if node := shutil.which("node"):
            said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
            machine += f", Node {said.stdout.strip().removeprefix('v')}"
        return cls(machine, sizes)

    def note_servers(self, versions: Mapping[str, str]) -> None:
        for name, version in versions.items():
            said = f", {name} {version}"
            self.machine = self.machine.replace(said, "") + said

    def save(self, file: str | None) -> None:
        self.minutes = (time.monotonic() - self._started) / 60
        if file is not None:
            # Whole or not at all: a run that is killed at this moment loses nothing.
            beside = Path(f"{file}.new")
            beside.write_text(json.dumps(asdict(self), indent=1))
            beside.replace(file)

    @classmethod
    def load(cls, file: str) -> Results:
        """What was saved."""
        kept = json.loads(Path(file).read_text())
        rows = {name: Row(**row) for name, row in kept["rows"].items()}
        return cls(**{**kept, "sizes": Sizes(**kept["sizes"]), "rows": rows})
