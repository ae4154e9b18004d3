"""Python files that change while a developer works on them, for `worker start --reload`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

WATCH_SECONDS: Final = 0.5
"""How often to look."""
NOT_OURS: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
"""Folders that hold no code of the application; those with a dot in front are left out, too."""


class Watch:
    """Remembers the files below a folder, and tells which have changed since."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen = dict(self._look())

    def changed(self) -> str | None:
        """A file that is new, gone or changed since the last look; None if there is none."""
        now = dict(self._look())
        before, self._seen = self._seen, now
        if now == before:
            return None
        path = next(path for path in {**now, **before} if now.get(path) != before.get(path))
        return os.path.relpath(path, self._folder)

    def _look(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for folder, below, names in os.walk(self._folder):
            below[:] = [name for name in below if not name.startswith(".") and name not in NOT_OURS]
            for name in names:
                if not name.endswith(".py"):
                    continue
                path = os.path.join(folder, name)
                try:
                    found = os.stat(path)
                except FileNotFoundError:
                    continue  # An editor has just put another one in its place.
                yield path, (found.st_mtime_ns, found.st_size)
