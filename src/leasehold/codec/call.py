"""The codec of one task: its calls and its results, as bytes and back."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Final, Literal

import msgspec

from leasehold.codec import signed
from leasehold.codec.changes import holds_nan, why_changed
from leasehold.codec.hints import Converter, converter, hints_of, kept_as_they_are, text_of_plain
from leasehold.codec.values import (
    PLAIN_TYPES,
    check_nesting,
    check_size,
    decode,
    encode,
    encode_value,
)
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.nesting import DEPTH_MAX, LEVELS_OF_CALL
from leasehold.errors import InvalidJobError, PayloadError

Passes = Literal["result", "results"]
"""The value that comes before a call's own arguments: the result of the one job that it follows, or
a list of the results of all of them."""
_PASSING: Final = b'{"passes":'
_PASSED: Final[dict[Passes, str]] = {
    "result": ". Its first argument is the result that is passed on (pass_result=True)",
    "results": ". Its first argument is the list of results that is passed on (pass_result=True)",
}
"""The arguments that a refusal adds to those that the caller has counted."""


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    args: list[Any]
    kwargs: dict[str, Any]
    passes: Passes | None = None


def passes_results(payload: bytes) -> bool:
    """Whether a call gets the results of other jobs."""
    return payload.startswith(_PASSING)


_decode_call: Final = msgspec.json.Decoder(_Call).decode


class CallCodec:
    """Encodes calls of one function, and decodes them as its type hints say.

    >>> def greet(name: str, times: int = 1) -> str: ...
    >>> codec = CallCodec(greet)
    >>> codec.encode_call(("Ada",), {"times": 2})
    b'{"args":["Ada"],"kwargs":{"times":2}}'
    >>> codec.decode_call(_, "json")
    (['Ada'], {'times': 2})
    """

    __slots__ = ("_func", "_key", "_plan", "_task", "_title", "_told_of_change", "name")

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        task: str | None = None,
        pickle_key: bytes | None = None,
        title: str | None = None,
    ) -> None:
        """`task` is the name under which its jobs are stored: a signature is bound to it."""
        if pickle_key is not None and task is None:
            raise ValueError("a codec that signs must know the name of its task")
        self._func = func
        self._task = task or ""
        self._title: str = title or getattr(func, "__qualname__", None) or repr(func)
        self._key = None if pickle_key is None else signed.check_key(pickle_key)
        self.name = "json" if self._key is None else "pickle"
        """What this writes: `json`, or `pickle` where a key was given. Both are read."""
        # Hints may use names defined later in the module: read them at the first call.
        self._plan: _Plan | None = None
        self._told_of_change = False

    def for_task(self, task: str) -> CallCodec:
        """The codec of the same code for jobs stored under this name."""
        if self._key is None or task == self._task:
            return self
        return CallCodec(self._func, task=task, pickle_key=self._key, title=self._title)

    @property
    def pickle_key(self) -> bytes | None:
        """The key it signs with, which a child process needs to run the same task."""
        return self._key

    def encode_call(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        bytes_max: int = PAYLOAD_BYTES_MAX,
        passes: Passes | None = None,
    ) -> bytes:
        """A call as bytes; raises unless the task would accept it and receive it unchanged.

        With `passes`, its first argument comes later and is checked then.
        """
        plan = self._plan or self._make_plan()
        first = 0
        document: dict[str, Any] = {"args": args, "kwargs": kwargs}
        if passes is not None:
            self._check_can_pass(plan)
            first = 1
            document = {"passes": passes, **document}
        if not plan.accepts((None, *args) if first else args, kwargs):
            plan.refuse((None, *args) if first else args, kwargs, passes)
        if self._key is not None:
            data = signed.dumps((tuple(args), dict(kwargs)), self._key, "call", self._task)
            check_size(data, f"the call of {plan.title}", bytes_max)
            return data
        try:
            data = encode(document)
        except Exception:
            # Encoding each argument separately shows which one it was.
            plan.blame(args, kwargs, first)
            raise
        if len(data) > bytes_max:
            check_size(data, f"the call of {plan.title}", bytes_max)
        if len(data) > DEPTH_MAX:  # A shorter one cannot be nested deeper.
            check_nesting(data, f"an argument of {plan.title}", LEVELS_OF_CALL)
        call = _decode_call(data)
        if plan.converters:
            plan.convert(call, first)
        if call.args != list(args) or call.kwargs != kwargs:
            plan.compare(args, kwargs, call, first)
        return data

    def _check_can_pass(self, plan: _Plan) -> None:
        if self._key is not None:
            raise InvalidJobError(
                f"{plan.title} has pickled arguments, and no results are passed to such a task"
            )

    def decode_call(
        self, payload: bytes, codec: str, results: Sequence[Any] | None = None
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments of a call. Any JSON document that is not a call is its one argument.

        `results` are for a call that gets some; without them that argument is missing.
        """
        if codec != "json":
            if codec != "pickle":
                raise _no_such_codec(codec)
            args, kwargs = signed.loads(payload, self._key, "call", self._task)
            return args, kwargs
        try:
            call = _decode_call(payload)
        except msgspec.ValidationError:
            call = _Call([_decode(payload, "payload")], {})
        except msgspec.DecodeError as error:
            raise PayloadError(f"the payload is not JSON: {error}") from error
        first = 0
        if call.passes is not None:
            if results is None:
                first = 1
            else:
                alone = next(iter(results), None)
                call.args.insert(0, alone if call.passes == "result" else list(results))
        plan = self._plan or self._make_plan()
        if plan.converters:
            plan.convert(call, first)
        return call.args, call.kwargs

    def fits(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the task's signature takes these arguments."""
        return (self._plan or self._make_plan()).accepts(args, kwargs)

    def encode_result(self, value: Any, bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
        """A returned value as bytes.

        The work is done by now, so little is refused that JSON can represent in any way: a value
        that no return hint names arrives as plain JSON data, a datetime for instance as text; the
        change is told by `first_change_of_result`.
        """
        if self._key is not None:
            data = signed.dumps(value, self._key, "result", self._task)
            check_size(data, "the result", bytes_max)
            return data
        data = encode_value(value, "the result")
        # msgspec writes NaN as null, which the caller would take for None.
        if b"null" in data and value is not None and holds_nan(value):
            raise PayloadError("the result holds NaN or infinity, which JSON cannot represent")
        if len(data) > DEPTH_MAX:  # A shorter one is neither too large nor nested deeper.
            check_size(data, "the result", bytes_max)
            check_nesting(data, "the result")
        return data

    def first_change_of_result(self, value: Any, data: bytes) -> str | None:
        """Why an encoded result arrives as something else, told once; None from then on.

        Text and numbers never change, and cost nothing here.
        """
        if self._key is not None or self._told_of_change or type(value) in PLAIN_TYPES:
            return None
        plan = self._plan or self._make_plan()
        received = self.decode_result(data, "json")
        why = why_changed(
            value, received, rebuilt=plan.result is not None, kept=plan.kept("return")
        )
        self._told_of_change = why is not None
        return why

    def decode_result(self, data: bytes, codec: str) -> Any:
        """A result, as the task's return hint says; as plain data where it does not fit."""
        if codec == "pickle":
            return signed.loads(data, self._key, "result", self._task)
        if codec != "json":
            raise _no_such_codec(codec)
        value = _decode(data, "result")
        convert = (self._plan or self._make_plan()).result
        if convert is None:
            return value
        try:
            return _converted(convert, value, "the result")
        except PayloadError:
            # Python does not enforce hints, so neither does a job that has done its work.
            return value

    def _make_plan(self) -> _Plan:
        self._plan = _Plan(self._func, self._title)
        return self._plan


class _Plan:
    """A function's signature and hints, prepared once for its calls."""

    def __init__(self, func: Callable[..., Any], title: str) -> None:
        self.title = title
        self._hints = hints = hints_of(func)
        self.result = converter(hints.get("return"))
        self.converters: dict[str, Converter] = {}
        """By parameter name; empty for a task that needs none."""
        self._args_max = sys.maxsize
        self._positional: list[str] = []
        self._places: dict[str, int] = {}
        """Where a parameter that may be given by name stands among the positional ones."""
        self._required: list[tuple[str, int]] = []
        self._rest: str | None = None
        self._rest_named: str | None = None
        self._signature: inspect.Signature | None = None
        try:
            signature = inspect.signature(func)
        except (TypeError, ValueError):
            # Some built-in functions have no signature: they will complain when called.
            return
        self._signature = signature
        for name, parameter in signature.parameters.items():
            convert = converter(hints.get(name, Parameter.empty))
            if convert is not None:
                self.converters[name] = convert
            self._add(name, parameter)
        if self._rest is None:
            self._args_max = len(self._positional)

    def kept(self, name: str) -> frozenset[type]:
        """The types whose values a parameter, or the result, is to have as they are."""
        return kept_as_they_are(self._hints.get(name))

    def _add(self, name: str, parameter: Parameter) -> None:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            self._rest = name
            return
        if parameter.kind is Parameter.VAR_KEYWORD:
            self._rest_named = name
            return
        by_name_only = parameter.kind is Parameter.KEYWORD_ONLY
        place = sys.maxsize if by_name_only else len(self._positional)
        if not by_name_only:
            self._positional.append(name)
        if parameter.kind is not Parameter.POSITIONAL_ONLY:
            self._places[name] = place
        if parameter.default is Parameter.empty:
            self._required.append((name, place))

    def accepts(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the function takes these arguments; as `Signature.bind` says, but fast."""
        count = len(args)
        if count > self._args_max:
            return False
        for name in kwargs:
            place = self._places.get(name)
            if place is None:
                if self._rest_named is None and self._signature is not None:
                    return False
            elif place < count:
                return False
        for name, place in self._required:
            if place >= count and (name not in kwargs or name not in self._places):
                return False
        return True

    def refuse(self, args: Sequence[Any], kwargs: Mapping[str, Any], passes: Passes | None) -> None:
        """Raise the InvalidJobError that says why the function does not take these arguments."""
        assert self._signature is not None
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            counted = "" if passes is None else _PASSED[passes]
            raise InvalidJobError(
                f"{self.title}{self._signature} cannot be called like this: {error}{counted}"
            ) from None

    def convert(self, call: _Call, first: int = 0) -> None:
        """Rebuild in place the types that the hints name; `first` is the first argument's place."""
        for index, value in enumerate(call.args):
            convert = self.converters.get(self._name_at(first + index))
            if convert is not None:
                call.args[index] = _converted(convert, value, self._argument(first + index))
        for name, value in call.kwargs.items():
            convert = self.converters.get(self._name_of(name))
            if convert is not None:
                call.kwargs[name] = _converted(convert, value, self._argument(name))

    def blame(self, args: Sequence[Any], kwargs: Mapping[str, Any], first: int) -> None:
        """Raise the PayloadError that names the argument which cannot be encoded."""
        for place, value in _places(args, kwargs, first):
            encode_value(value, self._argument(place))

    def compare(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], call: _Call, first: int
    ) -> None:
        """Raise the PayloadError that names the argument which JSON would change."""
        arrived = (*call.args, *call.kwargs.values())
        places = _places(args, kwargs, first)
        for (place, value), received in zip(places, arrived, strict=True):
            name = self._name_at(place) if isinstance(place, int) else self._name_of(place)
            why = why_changed(
                value,
                received,
                rebuilt=name in self.converters,
                kept=self.kept(name),
                hint=text_of_plain(self._hints.get(name, Parameter.empty)),
            )
            if why is not None:
                why = f"{name}{why}" if why.startswith("[") else why
                raise PayloadError(f"{self._argument(place)} cannot be written as JSON: {why}")

    def _name_at(self, index: int) -> str:
        return self._positional[index] if index < len(self._positional) else self._rest or ""

    def _name_of(self, keyword: str) -> str:
        known = self._signature is not None and keyword in self._signature.parameters
        return keyword if known else self._rest_named or ""

    def _argument(self, place: int | str) -> str:
        name = place if isinstance(place, str) else self._name_at(place) or f"number {place + 1}"
        return f"argument {name!r} of {self.title}"


def _places(
    args: Sequence[Any], kwargs: Mapping[str, Any], first: int
) -> list[tuple[int | str, Any]]:
    """Every argument with its index or its name."""
    return [*enumerate(args, first), *kwargs.items()]


def _converted(convert: Converter, value: Any, what: str) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise PayloadError(f"{what} does not match its type hint: {error}") from error


def _decode(data: bytes, what: str) -> Any:
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        raise PayloadError(f"the {what} is not JSON: {error}") from error


def _no_such_codec(codec: str) -> PayloadError:
    return PayloadError(f"no such codec: {codec!r}; it is either 'json' or 'pickle'")
