"""Type hints as converters: how to rebuild from JSON the types of a task's signature.

A hint that plain JSON satisfies (`str`, `list[int]`, `dict[str, Any]`, ...) needs none, and costs
nothing at run time.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable
from functools import partial
from inspect import Parameter
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from leasehold.codec.values import JSON_TYPES

Converter = Callable[[Any], Any]

_PLAIN: Final = (Any, object, str, int, float, bool, None, type(None), list, dict, Parameter.empty)
_ARRAYS: Final = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
)
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def hints_of(func: Callable[..., Any]) -> dict[str, Any]:
    """A function's type hints; a hint that cannot be resolved is left out and counts as none."""
    try:
        return typing.get_type_hints(func)
    except Exception:  # noqa: BLE001 - evaluating a hint can raise anything; look at each alone.
        found: dict[str, Any] = {}
        for name, hint in getattr(func, "__annotations__", {}).items():
            one = SimpleNamespace(__annotations__={name: hint})
            try:
                found |= typing.get_type_hints(one, getattr(func, "__globals__", {}))
            except Exception:  # noqa: BLE001, S112 - for instance imported for type checkers only.
                continue
        return found


def converter(hint: Any) -> Converter | None:
    """What turns JSON data into the type a hint names; None if JSON data is that already.

    >>> from datetime import date
    >>> converter(list[int])
    >>> converter(dict[str, date])({"born": "1912-06-23"})
    {'born': datetime.date(1912, 6, 23)}
    """
    if _is_plain(hint, frozenset()):
        return None
    if _is_supported(hint):
        return partial(msgspec.convert, type=hint, str_keys=True, dec_hook=_rebuild)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return partial(_first_that_fits, [(member, converter(member)) for member in args])
    # A union that msgspec cannot decide may stand inside a list or a dict.
    if origin in _ARRAYS and (inner := converter(args[0])) is not None:
        return partial(_each, inner)
    if origin in _MAPPINGS and args[0] is str and (inner := converter(args[1])) is not None:
        return partial(_each_value, inner)
    return None


def kept_as_they_are(hint: Any) -> frozenset[type]:
    """The types of JSON that a hint names beside others: values of these must not be converted.

    >>> sorted(kind.__name__ for kind in kept_as_they_are(list[bytes | str | None]))
    ['NoneType', 'str']
    >>> kept_as_they_are(bytes)
    frozenset()
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return frozenset()
    inner = frozenset().union(*map(kept_as_they_are, args))
    if origin in (typing.Union, types.UnionType):
        named = (typing.get_origin(arg) or arg for arg in args)
        return inner.union(kind for kind in named if kind in JSON_TYPES)
    return inner


def text_of_plain(hint: Any) -> str:
    """A hint of plain data as text; empty if it names other types, or lets any value pass.

    >>> text_of_plain(list[float]), text_of_plain(str), text_of_plain(dict[str, Any])
    ('list[float]', 'str', '')
    """
    if not _is_plain(hint, frozenset()) or hint in (list, dict, tuple, Parameter.empty):
        return ""
    text = inspect.formatannotation(hint)
    return "" if re.search(r"\b(Any|object)\b|~", text) else text


def _is_plain(hint: Any, seen: frozenset[int]) -> bool:
    if isinstance(hint, typing.TypeVar) or any(hint is plain for plain in _PLAIN):
        return True
    if isinstance(hint, typing.NewType):
        return _is_plain(hint.__supertype__, seen)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return True
    if origin is typing.Annotated:
        return _is_plain(args[0], seen)
    if origin in _ARRAYS or origin in (typing.Union, types.UnionType):
        return all(_is_plain(arg, seen) for arg in args)
    if origin in _MAPPINGS:
        return args[0] in (str, Any) and _is_plain(args[1], seen)
    if typing.is_typeddict(hint):
        fields = hints_of(hint).values()
        # A TypedDict may name itself; on the second visit nothing rich has been found so far.
        inside = seen | {id(hint)}
        return id(hint) in seen or all(_is_plain(field, inside) for field in fields)
    return False


def _is_supported(hint: Any) -> bool:
    try:
        msgspec.json.Decoder(hint, dec_hook=_rebuild)
    except Exception:  # noqa: BLE001 - msgspec reads the classes' own hints, which can raise anything.
        return False
    return True


def _rebuild(cls: type[Any], value: Any) -> Any:
    """Build values that msgspec does not know: pydantic models, with their own methods."""
    validate = getattr(cls, "model_validate_json", None)
    if validate is None:
        # For instance a protocol or an abstract class: msgspec checks that the value is one.
        return value
    return validate(msgspec.json.encode(value))


def _first_that_fits(members: list[tuple[Any, Converter | None]], value: Any) -> Any:
    for hint, convert in members:
        try:
            if convert is None:
                return msgspec.convert(value, hint)
            return convert(value)
        except (TypeError, ValueError):
            continue
    names = " | ".join(getattr(hint, "__qualname__", str(hint)) for hint, _ in members)
    raise msgspec.ValidationError(f"{value!r} fits none of {names}")


def _each(convert: Converter, values: Any) -> Any:
    if not isinstance(values, list):
        raise msgspec.ValidationError(f"a list was expected, not {values!r}")
    return [convert(value) for value in values]


def _each_value(convert: Converter, values: Any) -> Any:
    if not isinstance(values, dict):
        raise msgspec.ValidationError(f"a dictionary was expected, not {values!r}")
    return {key: convert(value) for key, value in values.items()}
