"""A queue's rules as options: one for each field of QueueConfig, present and future."""

from __future__ import annotations

import types
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import wraps
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import click
import msgspec

from leasehold.cli.options import DURATION
from leasehold.core.model.queue_config import QueueConfig
from leasehold.documents.described import described
from leasehold.queue.queues import DURATIONS

F = TypeVar("F", bound=Callable[..., Any])

_NONE: Final = object()
"""Stands for a rule to remove, since None is a missing option to click."""


class OrNone(click.ParamType[Any]):
    """What another type understands, or `none`."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self.inner = inner
        self.name = f"{inner.name}|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.strip().lower() == "none":
            return _NONE
        return self.inner.convert(value, param, ctx)


class Structured(click.ParamType[Any]):
    """JSON for a rule that is more than a number: an object, a list, or values with commas."""

    name = "json"

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        plain = self._read(value, param, ctx)
        try:
            return msgspec.convert(plain, type=self.kind)
        except (msgspec.ValidationError, ValueError) as error:
            if isinstance(plain, dict):
                self.fail(f"{value!r} is not valid: {error}", param, ctx)
        # A shorthand, such as one delay for a retry policy: the queue knows them, or refuses.
        return plain

    def _read(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(value)
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(f"[{value}]")
        if value[:1] in "{[":
            self.fail(
                f"{value!r} is neither JSON nor a list of values separated by commas", param, ctx
            )
        return [each.strip() for each in value.split(",")]


def rule_options(function: F) -> F:
    """Add an option for every rule; the command gets the given ones as `rules`."""
    names = QueueConfig.__struct_fields__

    @wraps(function)
    def with_rules(*args: Any, **given: Any) -> Any:
        rules = {name: given.pop(name) for name in names}
        told = {name: value for name, value in rules.items() if value is not None}
        changes = {name: None if value is _NONE else value for name, value in told.items()}
        return function(*args, rules=changes, **given)

    decorated: Any = with_rules
    hints, documented = get_type_hints(QueueConfig), described(QueueConfig)
    for name in reversed(names):
        decorated = _option(name, hints[name], documented.get(name, ""))(decorated)
    return cast("F", decorated)


def _option(name: str, hint: Any, text: str) -> Callable[[Any], Any]:
    flag = name.replace("_", "-")
    kinds = [kind for kind in _members(hint) if kind is not type(None)]
    optional = len(kinds) < len(_members(hint))
    if kinds == [bool]:
        return click.option(f"--{flag}/--no-{flag}", name, default=None, help=text)
    kind = _type_of(name, kinds, hint)
    return click.option(f"--{flag}", name, type=OrNone(kind) if optional else kind, help=text)


def _type_of(name: str, kinds: list[Any], hint: Any) -> click.ParamType[Any]:
    [kind] = kinds if len(kinds) == 1 else [None]
    if kind is int:
        return click.INT
    if kind is float or set(kinds) == {int, float}:
        is_time = name.endswith("_seconds") or name in DURATIONS
        return DURATION if is_time else click.FLOAT
    if kind is str:
        return click.STRING
    if get_origin(kind) is Literal:
        return click.Choice([str(value) for value in get_args(kind)])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return click.Choice([each.value for each in kind])
    return Structured(hint)


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
