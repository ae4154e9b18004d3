"""Whether JSON, and the hints that rebuild its data, change a value on its way."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Any, Final

import msgspec

from leasehold.codec.values import JSON_TYPES, as_json
from leasehold.core.model.text import shown, with_article

_CONTAINERS: Final = (set, frozenset, list, tuple, dict)


def why_changed(
    sent: Any,
    received: Any,
    *,
    rebuilt: bool,
    where: str = "",
    kept: frozenset[type] = frozenset(),
    hint: str = "",
) -> str | None:
    """Why a value would not reach the other side as it was sent; None if it would.

    `rebuilt` says that a type hint named the type, so that the conversion is wanted: but for values
    of the types that are `kept`, which the hint names too. `hint` is one that is there, as text,
    and names no type to rebuild.

    >>> why_changed((1, 2), [1, 2], rebuilt=False)
    >>> why_changed({1: "a"}, {"1": "a"}, rebuilt=False)
    'it has the dictionary key 1, and keys in JSON are text'
    """
    if sent == received:
        return None
    it = where or "it"
    if isinstance(sent, float) and not math.isfinite(sent):
        return f"{it} is {sent!r}, which JSON cannot represent"
    if isinstance(sent, list | tuple) and isinstance(received, list | tuple):
        pairs = list(zip(range(len(sent)), sent, received, strict=True))
    elif isinstance(sent, dict) and isinstance(received, dict):
        for key in sent:
            if key not in received or (len(received) != len(sent) and not isinstance(key, str)):
                return f"{it} has the dictionary key {key!r}, and keys in JSON are text"
        pairs = [(key, sent[key], received[key]) for key in sent]
    elif type(sent) is type(received):
        return _why_unequal(sent, received, where)
    elif rebuilt and type(sent) in kept:
        return (
            f"{it} is {shown(sent)}, which its type hint would also read as "
            f"{shown(received)}: let the hint name one of the two types, or wrap one in a class"
        )
    elif rebuilt and type(sent) in JSON_TYPES:
        return None
    else:
        return _why_another_type(sent, received, it, hint)
    for key, one, other in pairs:
        path = f"{where}[{key!r}]"
        why = why_changed(one, other, rebuilt=rebuilt, where=path, kept=kept, hint=hint)
        if why is not None:
            return why
    return None


def _why_another_type(sent: Any, received: Any, it: str, hint: str) -> str:
    kind = type(sent).__qualname__
    if hint:
        return f"{it} is {with_article(kind)}, but the hint is {hint}"
    return (
        f"{it} is of type {kind} and would arrive as "
        f"{type(received).__qualname__}; annotate it, e.g. `value: {kind}`"
    )


def _why_unequal(sent: Any, received: Any, where: str) -> str | None:
    """The same of two values of one type, which are said to be unequal."""
    if holds_nan(sent):
        return f"{where or 'it'} holds NaN or infinity"
    if isinstance(sent, datetime | time):
        return _why_another_time(sent, received, where)
    kind: Any = type(sent)
    names = list(_field_names(kind))
    for name in names:
        one, other = getattr(sent, name, None), getattr(received, name, None)
        path = f"{where}.{name}" if where else f"its field {name}"
        why = why_changed(one, other, rebuilt=True, where=path)
        if why is not None:
            return why
    # A class without equality of its own, or a set of such, says nothing by being unequal.
    if names or kind.__eq__ is object.__eq__ or isinstance(sent, _CONTAINERS):
        return None
    return f"{where or 'it'} is {shown(sent)} and would arrive as {shown(received)}"


def _why_another_time(sent: datetime | time, received: datetime | time, where: str) -> str | None:
    # In an hour that the clocks of its zone show twice, a moment is equal to that of no other zone.
    if _on_the_clock(sent) == _on_the_clock(received):
        return None
    return (
        f"{where or 'it'} is {sent.isoformat()} and would arrive as {received.isoformat()}, since "
        "offsets in JSON are whole minutes: convert it to UTC"
    )


def _on_the_clock(moment: datetime | time) -> tuple[datetime | time, timedelta | None]:
    return moment.replace(tzinfo=None, fold=0), moment.utcoffset()


def _field_names(kind: type) -> Iterator[str]:
    if dataclasses.is_dataclass(kind):
        yield from (field.name for field in dataclasses.fields(kind))
    else:
        # Of msgspec, of pydantic, and of attrs.
        yield from getattr(kind, "__struct_fields__", ())
        yield from getattr(kind, "model_fields", ())
        yield from (field.name for field in getattr(kind, "__attrs_attrs__", ()))


def holds_nan(value: Any) -> bool:
    """Whether there is NaN or infinity anywhere in a value."""
    value = msgspec.to_builtins(value, enc_hook=as_json)
    if isinstance(value, dict):
        return any(map(holds_nan, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(holds_nan, value))
    return isinstance(value, float) and not math.isfinite(value)
