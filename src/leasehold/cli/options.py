"""The values that the command line parses: durations, moments, priorities, tags, names."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, Final

import click
import msgspec

from leasehold.core.model.durations import plain_seconds
from leasehold.core.model.job import priority_of
from leasehold.core.model.limits import SECONDS_MAX
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
                f"{value!r} is no duration: write seconds, or 1.5s, 10m, 2h30m, 7d", param, ctx
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
            self.fail(f"{value!r} is no lease: it is above 0, and ten years at most", param, ctx)
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
                self.fail(f"{value!r} is before or after all times: say less", param, ctx)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{value!r} is no time: write 2026-01-31T12:00, 2026-01-31T12:00Z, +10m or -2h",
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
            self.fail(f"{value!r} is no tag: write NAME=VALUE", param, ctx)
        return name, _scalar(text)


class Names(click.ParamType[tuple[str, ...]]):
    """One name, or several with commas between them."""

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
    "args": "; it is a list, such as '[1, \"two\"]'",
    "kwargs": "; it is an object, such as '{\"name\": 1}'",
}


_KINDS: Final = {"args": list, "kwargs": dict}


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
            self.fail(f"this is not JSON: {error}{_EXAMPLES.get(name, '')}", param, ctx)
        kind = _KINDS.get(name)
        if kind is not None and document is not None and not isinstance(document, kind):
            self.fail(f"{value} is not {_EXAMPLES[name].removeprefix('; it is ')}", param, ctx)
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
            self.fail(f"{value!r} is no day: write 2026-01-31", param, ctx)


DURATION: Final = Duration()
MOMENT: Final = Moment()
DAY: Final = Day()
PRIORITY: Final = PriorityType()
TAG: Final = Tag()
NAMES: Final = Names()
JSON: Final = Json()
