"""Errors as bounded text, however hostile the error is.

An exception runs foreign code: its `__str__`, its notes, its cause and even its class may raise,
exit, lie or never end. So each fact is read separately, through the base class where possible, and
an unreadable one is replaced by words that say so. Nothing here raises.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

from leasehold.core.model.outcome import JobError

TRACEBACK_LENGTH_MAX: Final = 16 * 1024
MESSAGE_LENGTH_MAX: Final = 4 * 1024
GROUPED_MAX: Final = 500
"""A group with more errors in it, or more causes behind it, is shown without them."""
FRAMES_MAX: Final = 1000
"""Beyond this many frames, the outermost are left out."""

T = TypeVar("T")

# The descriptors of the base classes, which no metaclass or subclass can override.
_name_of_type: Final = type.__dict__["__qualname__"].__get__
_traceback_of: Final = BaseException.__dict__["__traceback__"].__get__
_cause_of: Final = BaseException.__dict__["__cause__"].__get__
_context_of: Final = BaseException.__dict__["__context__"].__get__
_exceptions_of: Final = BaseExceptionGroup.__dict__["exceptions"].__get__


def describe_error(error: BaseException, skip_file: str | None = None) -> JobError:
    """An error as bounded text: its type, its message, and the end of its traceback.

    Outermost frames of `skip_file` are left out: they belong to the caller, not to the task.
    """
    message, why_not = _message(error)
    if why_not is not None:
        message = f"(its message cannot be shown: {why_not})"
    text = guarded(lambda: _traceback(error, skip_file), None)
    return JobError(type_name(error), message, text)


def told_error(kind: str, message: str, trace: str | None = None) -> JobError:
    """An error given in words, within the same bounds."""
    if trace is not None:
        trace = _end_of(_encodable(trace))
    return JobError(clean_text(kind), clean_text(message), trace)


def describe_briefly(error: BaseException) -> str:
    """An error in one bounded line, for use in a message."""
    described = describe_error(error)
    return f"{described.type}: {described.message}" if described.message else described.type


def message_of(error: BaseException) -> str:
    """The message of an error, or its type if there is no message that can be shown."""
    return _message(error)[0] or type_name(error)


def type_name(thing: object) -> str:
    """The name of a value's class, whatever the class claims."""
    return clean_text(str(guarded(lambda: _name_of_type(type(thing)), "object")))


def clean_text(text: str, length_max: int = MESSAGE_LENGTH_MAX) -> str:
    """The beginning of a text, without characters that cannot be encoded.

    A lone surrogate would make the failure itself impossible to store.
    """
    # Through the base class, since the text may be of a subclass.
    return _encodable(str.__getitem__(text, slice(length_max)))[:length_max]


def _encodable(text: str) -> str:
    return str.encode(text, "utf-8", "backslashreplace").decode()


def guarded(read: Callable[[], T], otherwise: T) -> T:
    """The result of `read`, or `otherwise` if it raises anything at all."""
    try:
        return read()
    except BaseException:  # noqa: BLE001 - code of a stranger, which may even try to exit.
        return otherwise


def _message(error: BaseException) -> tuple[str, str | None]:
    try:
        return clean_text(str(error)), None
    except BaseException as broken:  # noqa: BLE001 - a broken __str__ must not hide the error.
        return "", type_name(broken)


def _traceback(error: BaseException, skip_file: str | None) -> str:
    trace = _below(_traceback_of(error), skip_file)
    lines = guarded(lambda: _whole_traceback(error, trace), None)
    if lines is None:
        # Its cause, notes or attributes cannot be read, but its origin can.
        name = type_name(error)
        lines = [
            "Traceback (most recent call last):\n",
            *traceback.format_tb(trace, limit=-FRAMES_MAX),
            f"{name}: {_message(error)[0] or '(it cannot be shown)'}\n",
        ]
    return _end_of(_encodable("".join(lines)))


def _end_of(trace: str) -> str:
    too_long = len(trace) > TRACEBACK_LENGTH_MAX
    return "...\n" + trace[-TRACEBACK_LENGTH_MAX:] if too_long else trace


def _whole_traceback(error: BaseException, trace: TracebackType | None) -> list[str] | None:
    if _is_too_wide(error):
        return None
    lines = traceback.format_exception(type(error), error, trace, limit=-FRAMES_MAX)
    return [str(line) for line in lines]


def _is_too_wide(error: BaseException) -> bool:
    """Whether it is a group of more errors than can be written out.

    An error that is in a group twice is written twice: a group of the same group, and so on, has no
    end within a lifetime.
    """
    left, seen = [error], {id(error)}
    for _ in range(GROUPED_MAX):
        if not left:
            return False
        one = left.pop()
        if isinstance(one, BaseExceptionGroup):
            left.extend(_exceptions_of(one))
        for before in (_cause_of(one), _context_of(one)):
            # These are written once, however often they occur.
            if before is not None and id(before) not in seen:
                seen.add(id(before))
                left.append(before)
    return bool(left)


def _below(trace: Any, skip_file: str | None) -> TracebackType | None:
    while trace is not None and trace.tb_next and trace.tb_frame.f_code.co_filename == skip_file:
        trace = trace.tb_next
    return trace  # type: ignore[no-any-return]
