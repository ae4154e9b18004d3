"""What Python carries out while a call runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def modules_called(call: Callable[[], object]) -> set[str]:
    """The modules of all Python functions that run meanwhile."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_globals.get("__name__", ""))

    _watched(call, note, sys.getprofile, sys.setprofile)
    return called


def bytecodes_of(call: Callable[[], object]) -> int:
    """How many of them this thread carries out."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    _watched(call, trace, sys.gettrace, sys.settrace)
    return count


def _watched(
    call: Callable[[], object],
    watch: Callable[[FrameType, str, object], Any],
    get: Callable[[], Any],
    put: Callable[[Any], None],
) -> None:
    before = get()
    put(watch)
    try:
        call()
    finally:
        put(before)
