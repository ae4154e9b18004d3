"""Errors that fight back when somebody looks at them."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from leasehold.errors import RetryableError
from support.zoo.members import EVERYWHERE, hostile


def _exit(*_: object) -> NoReturn:
    sys.exit("from a method of an error")


def _raise(*_: object) -> NoReturn:
    raise RuntimeError("from a method of an error")


def _error_with(**attributes: Any) -> Exception:
    error: Exception = type("HostileError", (Exception,), attributes)("hostile")
    return error


@hostile(*EVERYWHERE, ends="fails", because="its text raises")
def error_str_raises() -> None:
    raise _error_with(__str__=_raise)


@hostile(*EVERYWHERE, ends="fails", because="its text exits")
def error_str_exits() -> None:
    raise _error_with(__str__=_exit, __repr__=_exit)


@hostile(*EVERYWHERE, ends="fails", because="its text never ends")
def error_str_recurses() -> None:
    raise _error_with(__str__=lambda self: f"{self}")


@hostile(*EVERYWHERE, ends="fails", because="every attribute of it raises")
def error_attributes_raise() -> None:
    raise _error_with(__getattribute__=_raise)


@hostile(*EVERYWHERE, ends="fails", because="every attribute of it exits")
def error_attributes_exit() -> None:
    raise _error_with(__getattribute__=_exit)


@hostile(*EVERYWHERE, ends="fails", because="attributes that it has not exit")
def error_missing_attributes_exit() -> None:
    raise _error_with(__getattr__=_exit)


@hostile(*EVERYWHERE, ends="fails", because="it does not say of what class it is")
def error_class_raises() -> None:
    raise _error_with(__class__=property(_raise))


@hostile(*EVERYWHERE, ends="fails", because="its traceback, cause, context and arguments exit")
def error_parts_exit() -> None:
    parts = ("__traceback__", "__cause__", "__context__", "__suppress_context__", "args")
    raise _error_with(**dict.fromkeys(parts, property(_exit)))


@hostile(*EVERYWHERE, ends="fails", because="it was caused by what it caused")
def error_causes_itself() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    raise one


@hostile(*EVERYWHERE, ends="fails", because="it comes at the end of a long chain")
def error_with_long_chain() -> None:
    error = ValueError("first")
    for number in range(3000):
        following = ValueError(f"number {number}")
        following.__context__ = error
        error = following
    raise error


@hostile(*EVERYWHERE, ends="fails", because="its notes are no texts, and exit")
def error_with_hostile_notes() -> None:
    error = ValueError("noted")
    error.__notes__ = [5, None, _error_with(__str__=_exit, __repr__=_exit)]  # type: ignore[list-item]
    raise error


@hostile(*EVERYWHERE, ends="fails", because="its notes are no list")
def error_with_notes_of_no_kind() -> None:
    error = ValueError("noted")
    error.__notes__ = 5  # type: ignore[assignment]
    raise error


@hostile(*EVERYWHERE, ends="fails", because="no note can be added to it")
def error_refuses_notes() -> None:
    raise _error_with(add_note=_exit)


class _HostileMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        sys.exit("from a metaclass")

    def __eq__(cls, other: object) -> bool:
        sys.exit("from a metaclass")

    __hash__ = type.__hash__


@hostile(*EVERYWHERE, ends="fails", because="its class has a hostile class")
def error_of_hostile_class() -> None:
    class MetaError(Exception, metaclass=_HostileMeta):
        pass

    raise MetaError("meta")


@hostile(*EVERYWHERE, ends="fails", because="it is a group of hostile errors, and groups of them")
def error_group() -> None:
    hostile_errors: list[Exception] = [_error_with(__str__=_exit), ValueError("plain")]
    inner: ExceptionGroup[Exception] = ExceptionGroup("inner", hostile_errors)
    for _ in range(50):
        inner = ExceptionGroup("nested", [inner, *hostile_errors])
    raise inner


@hostile(*EVERYWHERE, ends="fails", because="it is a group of exits")
def error_group_of_exits() -> None:
    raise BaseExceptionGroup("exits", [SystemExit(1), KeyboardInterrupt()])


@hostile(*EVERYWHERE, ends="fails", because="it says far too much")
def error_with_huge_text() -> None:
    raise ValueError("x" * 5_000_000)


@hostile(*EVERYWHERE, ends="fails", because="its text cannot be encoded")
def error_with_surrogates() -> None:
    raise ValueError("\udcff\ud800" * 3000)


@hostile(*EVERYWHERE, ends="fails", because="its text is of a hostile class of texts")
def error_with_hostile_text() -> None:
    class Text(str):
        __slots__ = ()
        encode = __getitem__ = __len__ = __format__ = __str__ = _exit  # type: ignore[assignment]

    raise _error_with(__str__=lambda _: Text("text"))


@hostile(*EVERYWHERE, ends="fails", because="it does not say when to try again")
def error_with_hostile_delay() -> None:
    class LaterError(RetryableError):
        retry_after_seconds = property(_exit)

        def __init__(self) -> None:
            Exception.__init__(self)

    raise LaterError


@hostile(*EVERYWHERE, ends="fails", because="it is about source code that makes no sense")
def error_of_syntax() -> None:
    error = SyntaxError("bad", ("file", 1, 1, "text"))
    error.lineno = error.offset = error.text = error.filename = object()  # type: ignore[assignment]
    raise error


@hostile(*EVERYWHERE, ends="fails", because="it is raised while another one is handled, and again")
def error_after_error() -> None:
    try:
        raise _error_with(__str__=_exit)
    except Exception:
        raise _error_with(__getattribute__=_raise) from _error_with(__repr__=_exit)
