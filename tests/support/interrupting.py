"""Interrupting the main thread at a chosen instruction."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import leasehold

Instruction = tuple[str, str, int]
"""File, function and offset."""

SOURCE = str(Path(leasehold.__file__).parent)


class Interrupter:
    """Counts the instructions of Leasehold's own code, and raises a signal before some of them."""

    def __init__(self, at: Collection[int] = (), signum: int = signal.SIGINT) -> None:
        self._at = frozenset(at)
        self._signum = signum
        self.count = 0
        self.raised = 0
        self.instructions: list[Instruction] = []
        """All that were counted, or those before which the signal was raised."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count, and interrupt, what this thread does inside."""
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _on_call(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        # What is raised in a finalizer is dropped by Python: nobody could hear of it.
        if not frame.f_code.co_filename.startswith(SOURCE) or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._on_instruction

    def _on_instruction(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "opcode":
            number = self.count
            self.count += 1
            is_chosen = number in self._at
            if is_chosen or not self._at:
                name = Path(frame.f_code.co_filename).name
                self.instructions.append((name, frame.f_code.co_qualname, frame.f_lasti))
            if is_chosen:
                # Its handler runs here and now. What it raises is raised before the instruction,
                # and ends the tracing.
                self.raised += 1
                signal.raise_signal(self._signum)
        return self._on_instruction


def chosen(
    instructions: Sequence[Instruction],
    every_one_of: Collection[str],
    stride: int,
    known: Collection[Instruction] = (),
) -> list[int]:
    """Each instruction of some files that is not known, the first and the last time it is come to,
    and every `stride`-th besides.
    """
    first: dict[Instruction, int] = {}
    last: dict[Instruction, int] = {}
    for number, instruction in enumerate(instructions):
        if instruction[0] in every_one_of and instruction not in known:
            first.setdefault(instruction, number)
            last[instruction] = number
    others = range(0, len(instructions), stride)
    return sorted({*first.values(), *last.values(), *others})
