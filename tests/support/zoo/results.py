"""Results that fight back when they are to be stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from leasehold.core.model.outcome import Cancel, Retry
from support.zoo.members import EVERYWHERE, hostile


def _exit(*_: object) -> NoReturn:
    sys.exit("from a method of a result")


class _Kind:
    """A class of which every question exits."""

    __slots__ = ()
    __eq__ = __hash__ = __iter__ = __len__ = __reduce__ = __reduce_ex__ = _exit
    __str__ = __repr__ = __bool__ = __getattr__ = __float__ = __index__ = _exit


@hostile(*EVERYWHERE, ends="fails", because="every method of it exits")
def result_exits() -> object:
    return _Kind()


@hostile(*EVERYWHERE, ends="fails", because="it raises when asked for its class")
def result_class_raises() -> object:
    class NoClass:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError("no class")

    return NoClass()


@hostile(*EVERYWHERE, ends="fails", because="it exits when asked for any attribute")
def result_attributes_exit() -> object:
    class NoAttributes:
        __getattribute__ = _exit

    return NoAttributes()


@hostile(*EVERYWHERE, ends="fails", because="it says that it is something else")
def result_lies() -> object:
    class Liar:
        __class__ = Cancel  # type: ignore[assignment]

    return Liar()


@hostile(*EVERYWHERE, ends="fails", because="it is a generator")
def result_is_a_generator() -> Iterator[int]:
    return (number for number in range(3))


@hostile(*EVERYWHERE, ends="fails", because="it holds itself")
def result_holds_itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@hostile(*EVERYWHERE, ends="fails", because="it is nested deeper than any stack")
def result_is_deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@hostile(*EVERYWHERE, ends="fails", because="it is no number")
def result_is_nan() -> float:
    return float("nan")


@hostile(*EVERYWHERE, ends="either", because="it is a number that few can read")
def result_is_a_huge_number() -> int:
    return 10**5000


@hostile(*EVERYWHERE, ends="either", because="it is too large for a row")
def result_is_huge() -> str:
    return "x" * 3_000_000


@hostile(*EVERYWHERE, ends="fails", because="its text cannot be encoded")
def result_has_surrogates() -> str:
    return "\udcff"


@hostile(*EVERYWHERE, ends="either", because="it is a dict with hostile keys")
def result_has_hostile_keys() -> dict[Any, Any]:
    class Key(str):
        __slots__ = ()
        __eq__ = __str__ = _exit
        __hash__ = str.__hash__

    return {Key("one"): 1}


@hostile(*EVERYWHERE, ends="either", because="its items exit")
def result_items_exit() -> object:
    class Items(dict[str, int]):
        items = keys = __iter__ = __len__ = _exit

    return Items(one=1)


@hostile(*EVERYWHERE, ends="fails", because="it is a class, a module and a function")
def result_is_code() -> object:
    return [_Kind, sys, _exit]


@hostile("thread", "process", ends="either", because="its wish has no text")
def wish_without_text() -> object:
    return Cancel(object())  # type: ignore[arg-type]


@hostile("thread", "process", ends="either", because="its wish cannot be encoded")
def wish_with_surrogates() -> object:
    return Retry(None, "\udcff" * 10)


@hostile("thread", "process", ends="either", because="its wish is of a class of its own")
def wish_of_own_class() -> object:
    class Wish(Cancel, frozen=True):
        extra: int = 0

    return Wish("own")
