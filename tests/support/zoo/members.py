"""What a member of the zoo is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Where = Literal["thread", "async", "process"]
Ends = Literal["completes", "fails", "either"]

EVERYWHERE: tuple[Where, ...] = ("thread", "async", "process")


@dataclass(frozen=True)
class Member:
    """One hostile task."""

    name: str
    func: Callable[[], Any]
    where: tuple[Where, ...]
    ends: Ends
    because: str
    is_async: bool


ZOO: dict[str, Member] = {}


def hostile(
    *where: Where, ends: Ends, because: str
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add a plain function to the zoo; on an event loop it is called by a coroutine."""
    return _adder(where, ends, because, is_async=False)


def hostile_on_loop(
    *, ends: Ends, because: str
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add an async function to the zoo."""
    return _adder(("async",), ends, because, is_async=True)


def _adder(
    where: tuple[Where, ...], ends: Ends, because: str, *, is_async: bool
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def add(func: Callable[[], Any]) -> Callable[[], Any]:
        name = func.__name__
        assert name not in ZOO, f"two members are named {name}"
        ZOO[name] = Member(name, func, where, ends, because, is_async)
        return func

    return add


def members_of(where: Where) -> list[Member]:
    """Those that live there; every module of the zoo is loaded first."""
    from support.zoo import errors, exits, forks, loops, results, surroundings  # noqa: F401

    return [member for member in ZOO.values() if where in member.where]
