"""Tracebacks as pages show them: where the application's own code was, then frame by frame."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from leasehold.core.model.failure import own_frame
from leasehold.dashboard.shown import TEXT_LENGTH_MAX

OWN_SHOWN: Final = 5
NOT_KEPT: Final = "...\n"
"""The first line of a traceback whose beginning was too long to keep."""
_FRAME: Final = '  File "'
_LINE: Final = re.compile(r'", line (\d+)')


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback, with its line of code."""

    text: str
    own: str
    """File, function and line of a frame of the application's own; empty for others."""


@dataclass(frozen=True)
class ShownTraceback:
    """A traceback; a long one has only its end, where it failed."""

    frames: list[Frame]
    lines: int
    lines_shown: int
    is_kept_whole: bool

    @property
    def own(self) -> list[str]:
        """Where the application's own code was, the innermost first."""
        return self._own[:OWN_SHOWN]

    @property
    def own_left_out(self) -> int:
        return max(0, len(self._own) - OWN_SHOWN)

    @property
    def _own(self) -> list[str]:
        return [frame.own for frame in reversed(self.frames) if frame.own]


def shown_traceback(traceback: str | None) -> ShownTraceback | None:
    """A traceback as shown on a page; None if there is none."""
    if not traceback:
        return None
    told = traceback[-TEXT_LENGTH_MAX:]
    if len(told) < len(traceback):
        # From the start of a line, unless there is but one.
        told = told.partition("\n")[2] or told
    parts = re.split(r'(?m)^(?=  File ")', told)
    return ShownTraceback(
        frames=[Frame(part.rstrip("\n"), _own(part)) for part in parts if part.strip()],
        lines=len(traceback.splitlines()),
        lines_shown=len(told.splitlines()),
        is_kept_whole=not traceback.startswith(NOT_KEPT),
    )


def _own(part: str) -> str:
    place = own_frame(part) if part.startswith(_FRAME) else ""
    line = _LINE.search(part)
    return f"{place}, line {line[1]}" if place and line else place
