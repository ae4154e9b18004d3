"""The values that the command line parses: durations, moments, priorities, tags, names."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, Final

import click
import msgspec

from leasehold.core.model.durations import plain_seconds
from leasehold.core.model.job import priority_of
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.text import shown
from leasehold.env import SYSTEM, from_micros
from leasehold.errors import InvalidJobError


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit: 90, 1.5s, 10m, 2h30m, 7d."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = plain_seconds(value)
        if seconds is None:
            self.fail(
                f"{value!r} is not a duration: write seconds, or 1.5s, 10m, 2h30m, 7d", param, ctx
            )
        return float(seconds)


class LeaseLength(click.ParamType["float | str"]):
    """A duration, or `auto`."""

    name = "duration|auto"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        if value == "auto":
            return "auto"
        seconds = DURATION.convert(value, param, ctx)
        if not 0 < seconds <= SECONDS_MAX:
            self.fail(
                f"{value!r} is not a lease: it must be above 0 and at most ten years", param, ctx
            )
        return seconds


class Moment(click.ParamType[datetime]):
    """A time in ISO 8601 (without a zone: the local one), `now`, or from now: +10m, -2h."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        text = value.strip()
        now = from_micros(SYSTEM.clock.time_micros())
        if text == "now":
            return now
        if text[:1] in "+-" and plain_seconds(text[1:]) is not None:
            seconds = DURATION.convert(text[1:], param, ctx)
            try:
                return now + timedelta(seconds=seconds if text[0] == "+" else -seconds)
            except OverflowError:
                self.fail(f"{value!r} is out of range: give a time nearer to now", param, ctx)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{value!r} is not a time: write 2026-01-31T12:00, 2026-01-31T12:00Z, +10m or -2h",
                param,
                ctx,
            )
        return moment.astimezone()


class PriorityType(click.ParamType[int]):
    """0 to 100, or low, medium, high, critical."""

    name = "priority"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and value.lstrip("+-").isdigit():
            value = int(value)
        named: Any = value.lower() if isinstance(value, str) else value
        try:
            return priority_of(named)
        except InvalidJobError as error:
            self.fail(str(error), param, ctx)


class Tag(click.ParamType[tuple[str, Any]]):
    """NAME=VALUE; a value that reads as a number, true, false or null is one."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, separator, text = value.partition("=")
        if not separator or not name:
            self.fail(f"{value!r} is not a tag: write NAME=VALUE", param, ctx)
        return name, _scalar(text)


class Names(click.ParamType[tuple[str, ...]]):
    """One name, or several separated by commas."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        if not names:
            self.fail("give at least one name", param, ctx)
        return names


_EXAMPLES: Final = {
    "args": "a list, such as '[1, \"two\"]'",
    "kwargs": "an object, such as '{\"name\": 1}'",
}


_KINDS: Final = {"args": list, "kwargs": dict}


def _why_not_json(text: str, option: str, error: msgspec.DecodeError) -> str:
    it, expected = shown(text), _EXAMPLES.get(option)
    if expected is None:
        return f"{it} is not JSON: {error}"
    if text.isalnum():
        # A bare word, so that no place in it says more.
        example = f"a list, such as '[\"{text}\"]'" if option == "args" else expected
        return f"{it} is not JSON: give {example}"
    return f"{it} is not JSON ({error}): give {expected}"


class Json(click.ParamType[Any]):
    """A JSON document."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        name = "" if param is None else param.name or ""
        try:
            document = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            self.fail(_why_not_json(value, name, error), param, ctx)
        kind = _KINDS.get(name)
        if kind is not None and document is not None and not isinstance(document, kind):
            self.fail(f"{value} is not {_EXAMPLES[name]}", param, ctx)
        return document


def _scalar(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return text if isinstance(value, list | dict) else value


class Day(click.ParamType[date]):
    """A day, as 2026-01-31."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        if isinstance(value, date):
            return value
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            self.fail(f"{value!r} is not a day: write 2026-01-31", param, ctx)


DURATION: Final = Duration()
MOMENT: Final = Moment()
DAY: Final = Day()
PRIORITY: Final = PriorityType()
TAG: Final = Tag()
NAMES: Final = Names()
JSON: Final = Json()
