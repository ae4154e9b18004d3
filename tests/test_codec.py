"""What a task receives equals what was submitted, or its hints say how to rebuild it."""

from __future__ import annotations

import collections
import enum
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NewType, TypedDict
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.codec import CallCodec, decode_document, encode_document, signed
from leasehold.codec.hints import converter
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.errors import InvalidJobError, PayloadError, PayloadTooLargeError

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]

KEY = b"0123456789abcdef"


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float | None = None


@dataclass
class Point3(Point):
    z: int = 0


class Item(msgspec.Struct):
    name: str
    when: datetime


class Person(pydantic.BaseModel):
    name: str
    born: date


@dataclass
class Price:
    cents: int

    def __post_init__(self) -> None:
        self.cents *= 100


class Hidden(pydantic.BaseModel):
    name: str
    secret: int = pydantic.Field(default=1, exclude=True)


@dataclass(eq=False)
class Unequal:
    inner: list[Unequal] | datetime | None


class Row(TypedDict):
    id: int


UserId = NewType("UserId", int)


def anything(*args: Any, **kwargs: Any) -> Any: ...


def plain(a: str, b: int = 1, *, c: list[int] | None = None) -> None: ...


def received(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    codec = CallCodec(func)
    return codec.decode_call(codec.encode_call(args, kwargs), "json")


def received_one(hint: Any, value: Any) -> Any:
    def task(value: Any) -> None: ...

    task.__annotations__ = {"value": hint}
    [[back], _] = received(task, value)
    return back


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(JSON), st.dictionaries(st.text(), JSON))
def test_plain_data_arrives_as_it_was_sent(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert received(anything, *args, **kwargs) == (args, kwargs)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (datetime, datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (date, date(2030, 1, 2)),
        (uuid.UUID, uuid.UUID(int=7)),
        (Decimal, Decimal("1.10")),
        (bytes, b"\x00\xff"),
        (Colour, Colour.RED),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (Point, Point(1, 2.5)),
        (Item, Item("a", datetime(2030, 1, 1, tzinfo=UTC))),
        (Person, Person(name="Ada", born=date(1815, 12, 10))),
        (list[Person], [Person(name="Ada", born=date(1815, 12, 10))]),
        (dict[str, datetime], {"a": datetime(2030, 1, 1, tzinfo=UTC)}),
        (dict[int, str], {1: "a"}),
        (datetime | None, None),
        (datetime | None, datetime(2030, 1, 1, tzinfo=UTC)),
        (uuid.UUID | int, 5),
        (Point | Person, Person(name="Ada", born=date(1815, 12, 10))),
        (Point | Person | None, Point(1)),
        (list[Person | int], [1, Person(name="Ada", born=date(1815, 12, 10))]),
        (dict[str, Point | str], {"a": Point(1), "b": "text"}),
    ],
)
def test_what_the_hints_name_is_rebuilt(hint: Any, value: Any) -> None:
    back = received_one(hint, value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "hint",
    [str, int, list[int], dict[str, Any], int | None, Literal["a"], UserId, Row, list[Row], object],
)
def test_a_hint_that_json_satisfies_needs_no_converter(hint: Any) -> None:
    assert converter(hint) is None


def test_a_plain_value_for_a_rich_hint_is_converted() -> None:
    assert received_one(datetime, "2030-01-01T00:00:00Z") == datetime(2030, 1, 1, tzinfo=UTC)
    assert received_one(Point, {"x": 1}) == Point(1)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (bytes | str, "data"),
        (uuid.UUID | str, str(uuid.UUID(int=7))),
        (list[date | str], ["2030-01-01"]),
        (Point | dict[str, Any], {"x": 1}),
    ],
)
def test_a_plain_value_that_a_hint_names_beside_others_is_not_converted(
    hint: Any, value: Any
) -> None:
    with pytest.raises(PayloadError, match="which its type hint would also read as"):
        received_one(hint, value)


@pytest.mark.parametrize(("hint", "value"), [(bytes | str, "no base64"), (date | str, "soon")])
def test_a_plain_value_that_can_only_be_itself_arrives(hint: Any, value: Any) -> None:
    assert received_one(hint, value) == value


def test_a_value_that_differs_when_it_is_made_anew_is_refused() -> None:
    with pytest.raises(PayloadError, match=r"its field cents is 500 and would arrive as 50000"):
        received_one(Price, Price(5))
    with pytest.raises(PayloadError, match=r"\[0\].secret is 9 and would arrive as 1"):
        received_one(list[Hidden], [Hidden(name="a", secret=9)])
    assert received_one(Hidden, Hidden(name="a")) == Hidden(name="a")


def test_values_without_equality_are_compared_by_their_fields() -> None:
    assert received_one(Unequal, Unequal([Unequal(None)])).inner[0].inner is None
    with pytest.raises(PayloadError, match="its field inner is 2030-01-01T00:00:00-00:44:30"):
        received_one(Unequal, Unequal(datetime(2030, 1, 1, tzinfo=ODD)))


ODD = timezone(timedelta(minutes=-44, seconds=-30))
TWICE = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("hint", "value"), [(datetime, datetime(1950, 1, 1, tzinfo=ODD)), (time, time(1, tzinfo=ODD))]
)
def test_an_offset_with_seconds_is_refused(hint: Any, value: Any) -> None:
    with pytest.raises(PayloadError, match=r"-00:44:30 and would .*: convert it to UTC"):
        received_one(hint, value)


@pytest.mark.parametrize("value", [TWICE, TWICE.replace(fold=0), datetime.min.replace(tzinfo=UTC)])
def test_a_moment_of_any_zone_arrives(value: datetime) -> None:
    back = received_one(datetime, value)
    assert back.replace(tzinfo=None) == value.replace(tzinfo=None, fold=0)
    assert back.utcoffset() == value.utcoffset()


def test_a_value_that_does_not_fit_its_rich_hint_is_refused_at_submit() -> None:
    with pytest.raises(PayloadError, match=r"argument 'value' of .* does not match its type hint"):
        received_one(datetime, "tomorrow")


def test_a_value_that_its_plain_hint_does_not_name_is_told_with_the_hint() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    with pytest.raises(
        PayloadError, match=r"value\[0\] is a datetime, but the hint is list\[float"
    ):
        received_one(list[float], [moment])
    for vague in (list, list[Any]):
        with pytest.raises(
            PayloadError,
            match=r"value\[0\] is of type datetime .*; annotate it, e.g. `value: datetime`",
        ):
            received_one(vague, [moment])


def test_tuples_arrive_as_lists() -> None:
    assert received(anything, (1, (2, 3))) == ([[1, [2, 3]]], {})


@pytest.mark.parametrize(
    "value",
    [
        datetime(2030, 1, 1, tzinfo=UTC),
        Decimal(1),
        uuid.UUID(int=1),
        {1, 2},
        b"bytes",
        Point(1),
        [{"deep": Point(1)}],
        Colour.RED,
    ],
)
def test_what_json_would_change_in_silence_is_refused(value: Any) -> None:
    with pytest.raises(PayloadError, match="; annotate it"):
        received(anything, value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("hint", [Any, float, list[float | datetime]])
def test_nan_and_infinity_are_refused(number: float, hint: Any) -> None:
    with pytest.raises(PayloadError):
        received_one(hint, [number])


def test_nan_inside_an_object_is_refused() -> None:
    with pytest.raises(PayloadError, match="NaN"):
        received_one(Point, Point(1, math.nan))


@pytest.mark.parametrize("value", [{1: "a"}, {1: "a", "1": "b"}, {1.5: "x"}])
def test_keys_that_are_not_text_are_refused(value: Any) -> None:
    with pytest.raises(PayloadError, match="keys in JSON are text"):
        received(anything, value)


@pytest.mark.parametrize("value", [{(1, 2): 3}, object(), lambda: 1, "\ud800", {None: 1}])
def test_what_cannot_be_encoded_is_named(value: Any) -> None:
    def task(good: int, bad: Any) -> None: ...

    with pytest.raises(
        PayloadError, match=f"argument 'bad' of .*(of type|is an?) {type(value).__qualname__}"
    ):
        received(task, 1, bad=value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(PayloadError, match="contains itself"):
        received(anything, loop)


def test_a_subclass_would_lose_its_own_fields_and_is_refused() -> None:
    with pytest.raises(PayloadError, match="Point3 and would arrive as Point"):
        received_one(Point, Point3(1, 2, 3))


def test_subclasses_of_text_are_text() -> None:
    class Text(str):
        __slots__ = ()

    assert received(anything, Text("a"), collections.OrderedDict(b=1)) == (["a", {"b": 1}], {})


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "missing a required argument: 'a'"),
        (("x", 1, 2), {}, "too many positional arguments"),
        (("x",), {"d": 1}, "unexpected keyword argument 'd'"),
        (("x",), {"a": "y"}, "multiple values for argument 'a'"),
    ],
)
def test_a_call_the_task_would_refuse_is_refused_at_submit(
    args: tuple[Any, ...], kwargs: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidJobError, match=r"plain\(a: 'str'.*") as caught:
        CallCodec(plain).encode_call(args, kwargs)
    assert why in str(caught.value)


def needs_names(a: int, /, b: int, *rest: int, c: int, d: int = 1, **more: int) -> None: ...


def no_parameters() -> None: ...


@given(
    st.sampled_from([plain, needs_names, no_parameters, anything]),
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from("abcdx"), st.integers()),
)
def test_the_fast_check_agrees_with_python(
    func: Callable[..., Any], args: list[int], kwargs: dict[str, int]
) -> None:
    import inspect

    try:
        inspect.signature(func).bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(InvalidJobError):
            CallCodec(func).encode_call(args, kwargs)
    else:
        CallCodec(func).encode_call(args, kwargs)


def test_a_hint_that_cannot_be_resolved_counts_as_none_and_spares_the_others() -> None:
    def task(a: Missing, when: datetime) -> None: ...

    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert received(task, "x", moment) == (["x", moment], {})


def test_too_large_a_call_says_its_size_and_the_limit() -> None:
    with pytest.raises(PayloadTooLargeError, match=r"262,1\d\d bytes long; at most 262,144"):
        received(anything, "x" * PAYLOAD_BYTES_MAX)


def test_a_document_that_is_no_call_is_the_one_argument() -> None:
    codec = CallCodec(anything)
    assert codec.decode_call(b'{"x":1}', "json") == ([{"x": 1}], {})
    assert codec.decode_call(b"[1,2]", "json") == ([[1, 2]], {})


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff"])
def test_a_broken_payload_is_a_payload_error(payload: bytes) -> None:
    with pytest.raises(PayloadError):
        CallCodec(anything).decode_call(payload, "json")


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(PayloadError, match="'yaml'"):
        CallCodec(anything).decode_call(b"{}", "yaml")


# -- results -----------------------------------------------------------------------------------


def test_results_follow_the_return_hint() -> None:
    def task() -> list[Person]:
        return []

    codec = CallCodec(task)
    people = [Person(name="Ada", born=date(1815, 12, 10))]
    assert codec.decode_result(codec.encode_result(people), "json") == people


def test_a_result_that_json_cannot_say_is_refused() -> None:
    for value in (math.nan, [1.0, math.inf], object()):
        with pytest.raises(PayloadError, match="the result"):
            CallCodec(anything).encode_result(value)
    with pytest.raises(PayloadTooLargeError):
        CallCodec(anything).encode_result("x" * PAYLOAD_BYTES_MAX)


def test_a_result_without_a_hint_arrives_as_plain_data() -> None:
    codec = CallCodec(anything)
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    for value, received in ((moment, "2030-01-01T00:00:00Z"), ({1}, [1]), ({1: "a"}, {"1": "a"})):
        assert codec.decode_result(codec.encode_result(value), "json") == received


def test_a_result_that_arrives_as_something_else_is_told_of_once() -> None:
    def bare() -> None: ...

    del bare.__annotations__["return"]
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    for value, why in (
        (moment, "it is of type datetime and would arrive as str; annotate it"),
        ({"at": [moment]}, "['at'][0] is of type datetime"),
        ({1: "a"}, "it has the dictionary key 1, and keys in JSON are text"),
        (Point(1), "it is of type Point and would arrive as dict"),
    ):
        codec = CallCodec(bare)
        data = codec.encode_result(value)
        assert (codec.first_change_of_result(value, data) or "").startswith(why)
        assert codec.first_change_of_result(value, data) is None


def test_results_that_arrive_as_they_are_returned_are_not_told_of() -> None:
    def moments() -> list[datetime]:
        return []

    moment = datetime(2030, 1, 1, tzinfo=UTC)
    for codec, value in (
        (CallCodec(moments), [moment]),
        (CallCodec(anything), {"a": [1, (2, 3), None]}),
        (CallCodec(anything), "text"),
        (CallCodec(anything, task="t", pickle_key=KEY), moment),
    ):
        assert codec.first_change_of_result(value, codec.encode_result(value)) is None


def test_a_result_that_does_not_fit_its_hint_arrives_as_plain_data() -> None:
    def when() -> datetime:
        return "tomorrow"  # type: ignore[return-value]

    codec = CallCodec(when)
    assert codec.decode_result(codec.encode_result(when()), "json") == "tomorrow"


# -- signed pickle -----------------------------------------------------------------------------


def test_signed_pickle_brings_back_anything() -> None:
    codec = CallCodec(anything, task="t", pickle_key=KEY)
    data = codec.encode_call(({1, 2}, (3,)), {"p": Point(1)})
    assert codec.name == "pickle"
    assert codec.decode_call(data, "pickle") == (({1, 2}, (3,)), {"p": Point(1)})
    assert codec.decode_result(codec.encode_result({1: 2}), "pickle") == {1: 2}
    assert codec.decode_call(b'{"args":[1],"kwargs":{}}', "json") == ([1], {})


def test_pickle_is_refused_without_the_key_with_another_and_when_tampered_with() -> None:
    data = CallCodec(anything, task="t", pickle_key=KEY).encode_call((1,), {})
    with pytest.raises(PayloadError, match="no pickle_key"):
        CallCodec(anything).decode_call(data, "pickle")
    with pytest.raises(PayloadError, match="another key"):
        CallCodec(anything, task="t", pickle_key=KEY[::-1]).decode_call(data, "pickle")
    for index in (0, 31, 32, len(data) - 1):
        broken = bytearray(data)
        broken[index] ^= 1
        with pytest.raises(PayloadError, match="tampered"):
            CallCodec(anything, task="t", pickle_key=KEY).decode_call(bytes(broken), "pickle")


def test_a_signed_call_does_not_pass_for_a_result() -> None:
    codec = CallCodec(anything, task="t", pickle_key=KEY)
    with pytest.raises(PayloadError):
        codec.decode_result(codec.encode_call((), {}), "pickle")


def test_what_is_signed_for_one_task_is_refused_for_another() -> None:
    """Whoever may write to the store could otherwise call a task with another one's arguments."""
    paint, erase = (CallCodec(anything, task=name, pickle_key=KEY) for name in ("paint", "erase"))
    call, result = paint.encode_call(("wall",), {}), paint.encode_result("done")
    with pytest.raises(PayloadError, match="not for task 'erase'"):
        erase.decode_call(call, "pickle")
    with pytest.raises(PayloadError, match="not for task 'erase'"):
        erase.decode_result(result, "pickle")
    again = erase.for_task("paint")
    assert again.decode_call(call, "pickle") == (("wall",), {})
    assert again.decode_result(result, "pickle") == "done"
    with pytest.raises(ValueError, match="name of its task"):
        CallCodec(anything, pickle_key=KEY)


@given(st.text(max_size=6), st.text(max_size=6), st.binary(max_size=6), st.binary(max_size=6))
def test_no_two_names_and_data_are_signed_alike(
    one: str, other: str, data: bytes, more: bytes
) -> None:
    alike = signed._signature(data, KEY, "call", one) == signed._signature(more, KEY, "call", other)
    assert alike == ((one, data) == (other, more))


def test_a_key_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="16 random bytes"):
        CallCodec(anything, task="t", pickle_key=b"secret")


# -- documents ---------------------------------------------------------------------------------


@given(JSON)
def test_documents_round_trip(value: Any) -> None:
    assert decode_document(encode_document(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        "[NaN]",
        "[Infinity]",
        "[-Infinity]",
        "1e999",
        "9" * 5000,
        "[" * 65 + "]" * 65,
        "[" * 100_000,
        "{",
        "",
        b"\xff",
        '"' + "x" * PAYLOAD_BYTES_MAX + '"',
        "[1] 2",
    ],
)
def test_json_bombs_and_loose_json_are_refused(text: str | bytes) -> None:
    with pytest.raises(PayloadError):
        decode_document(text)


def test_the_deepest_document_allowed_passes() -> None:
    assert decode_document("[" * 63 + "1" + "]" * 63)
