"""When a schedule ticks: cron expressions in a time zone, or a fixed interval.

A timing is data and independent of the present: given a time, it returns the next tick.

Clocks that are set forward or back are the hard part. `cronsim` matches times as a clock on the
wall shows them, without a zone; which real times those are is decided here, by one rule:

- An expression that names the time of day ("30 2 * * *") ticks once on each matching day. A skipped
  time ticks at the first moment after the gap, together with all other skipped times; a time that
  occurs twice ticks the first time.
- An expression with a star in its hour, minute or second ("*/15 * * * *", "0 * * * *") follows real
  time: it ticks whenever the clock shows a matching time, so twice at a time that occurs twice, and
  not at a skipped one.

>>> berlin = Cron("30 2 * * *", zone="Europe/Berlin")
>>> berlin.next_after(datetime(2030, 3, 31, tzinfo=UTC)).isoformat()  # 2:00 to 3:00 is skipped
'2030-03-31T01:00:00+00:00'
>>> Every(900).next_after(datetime(2030, 1, 1, 12, 7, tzinfo=UTC)).isoformat()
'2030-01-01T12:15:00+00:00'
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

import msgspec

from leasehold.core.model.durations import Seconds, plain_seconds
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.phrases import listed
from leasehold.core.model.text import make_plain
from leasehold.env import from_micros, to_micros
from leasehold.errors import InvalidScheduleError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

EVERY_SECONDS_MIN: Final = 0.1
EXPRESSION_LENGTH_MAX: Final = 255
SHORTHANDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SECOND: Final = timedelta(seconds=1)
# The search for whether an expression ever matches starts here: a leap year that begins a century.
_ANY_TIME: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - a time on the wall, in no zone


class Every(msgspec.Struct, frozen=True, tag="every", forbid_unknown_fields=True):
    """A tick at a fixed interval, counted from `starting`, or from 1970 (UTC) without it.

    So `Every(900)`, or `Every("15m")`, ticks on every quarter of an hour, in every process and
    after every restart.
    """

    seconds: float
    starting: datetime | None = None
    """The first tick; none comes before it."""

    if TYPE_CHECKING:

        def __init__(self, seconds: Seconds, starting: datetime | None = None) -> None: ...

    def __post_init__(self) -> None:
        seconds = plain_seconds(self.seconds)
        # The comparison also refuses NaN, which is neither above nor below anything.
        if seconds is None or not EVERY_SECONDS_MIN <= seconds <= SECONDS_MAX:
            raise InvalidScheduleError(
                'an interval is seconds, a timedelta or text such as "15m", from '
                f"{EVERY_SECONDS_MIN} seconds to ten years, not {self.seconds!r}"
            )
        msgspec.structs.force_setattr(self, "seconds", seconds)
        if self.starting is not None and (
            not isinstance(self.starting, datetime) or self.starting.utcoffset() is None
        ):
            raise InvalidScheduleError(
                f"starting must be a datetime that knows its time zone, not {self.starting!r}"
            )

    def next_after(self, moment: datetime) -> datetime | None:
        """The first tick after this time; None if there is none before the year 10000."""
        anchor = 0 if self.starting is None else to_micros(self.starting)
        period = round(self.seconds * 1e6)
        passed = to_micros(moment) - anchor
        try:
            return from_micros(anchor if passed < 0 else anchor + (passed // period + 1) * period)
        except OverflowError:
            return None


class Cron(msgspec.Struct, frozen=True, tag="cron", forbid_unknown_fields=True):
    """A cron expression, as clocks in `zone` show it.

    Five fields (minute, hour, day of month, month, day of week) or six (seconds first), or a
    shorthand such as "@daily". See the rule above for clocks that are set forward or back.
    """

    expression: str
    zone: str = "UTC"

    if TYPE_CHECKING:

        def __init__(self, expression: str, zone: str | ZoneInfo = "UTC") -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.zone, str):
            msgspec.structs.force_setattr(self, "zone", _name_of(self.zone))
        make_plain(self)
        _find_zone(self.zone)
        _check_expression(self.expression)

    def next_after(self, moment: datetime) -> datetime | None:
        """The first tick after this time; None if there is none for 50 years."""
        zone = _find_zone(self.zone)
        fields = _fields(self.expression)
        *time_of_day, _, _, _ = fields.split()
        try:
            if any(field.startswith("*") for field in time_of_day):
                return _next_by_real_time(fields, zone, moment)
            return _next_time_of_day(fields, zone, moment)
        except OverflowError:
            # The calendar ends with the year 9999.
            return None


Timing = Cron | Every


# -- local times and real moments --------------------------------------------------------------


def _next_time_of_day(fields: str, zone: tzinfo, after: datetime) -> datetime | None:
    # Here, later wall times never occur earlier, so the first match is the answer.
    for shown in _matching(fields, _on_the_wall(after, zone)):
        moments = _moments_of(shown, zone)
        tick = moments[0] if moments else _end_of_gap(shown, zone)
        if tick > after:
            return tick
    return None


def _next_by_real_time(fields: str, zone: tzinfo, after: datetime) -> datetime | None:
    wall = _on_the_wall(after, zone)
    begin = wall
    set_back = _will_be_set_back(after, zone)
    if set_back:
        following = next(_matching(fields, wall), None)
        if following is not None and following - wall < set_back:
            moments = _moments_of(following, zone)
            if len(moments) == 2:
                return moments[0]
        # No match until the clock is set back; after that, some wall times occur again.
        begin = wall - set_back
    for shown in _matching(fields, begin):
        later = [moment for moment in _moments_of(shown, zone) if moment > after]
        if later:
            return later[0]
    return None


def _matching(fields: str, after: datetime) -> Iterator[datetime]:
    """The matching times after this one, on a clock that is never set forward or back."""
    # Imported here so that only users of cron expressions pay for it.
    from cronsim import CronSim

    return CronSim(fields, after)


def _on_the_wall(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _moments_of(shown: datetime, zone: tzinfo) -> list[datetime]:
    """The real times at which clocks show this time: one, two if they are set back, none if it is
    skipped.
    """
    both = (shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return sorted({moment for moment in both if _on_the_wall(moment, zone) == shown})


def _will_be_set_back(moment: datetime, zone: tzinfo) -> timedelta:
    """How far the clock will be set back, if this is the first of two occurrences of this time."""
    local = moment.astimezone(zone)
    first, second = local.utcoffset(), local.replace(fold=1).utcoffset()
    assert first is not None
    assert second is not None
    return max(first - second, timedelta(0))


def _end_of_gap(shown: datetime, zone: tzinfo) -> datetime:
    """The first moment after the gap in which this skipped time lies."""
    # Read with the offset after the change it lies before the change, and the other way round.
    before = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    after = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    old = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after


# -- checking ----------------------------------------------------------------------------------


def _name_of(zone: Any) -> Any:
    """The name under which a store keeps a zone: a ZoneInfo has one, and UTC has."""
    return "UTC" if zone is UTC else getattr(zone, "key", zone)


def _find_zone(zone: str) -> tzinfo:
    if zone == "UTC":
        return UTC  # Even on a machine without time zone data.
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(zone)
    except (LookupError, ValueError, TypeError, AttributeError, OSError):
        raise InvalidScheduleError(
            f"{zone!r} is not a time zone that this machine knows: give a name such as "
            "'Europe/Berlin' (where the system has no time zone data, install tzdata)"
        ) from None


def _fields(expression: str) -> str:
    return SHORTHANDS.get(expression.strip().lower(), expression)


_NEVER: Final = "{!r} never fires: no date matches it"


def _is_no_date(expression: str) -> bool:
    """Whether a refused expression has a day that only other months have, such as 30 February."""
    from cronsim import CronSimError

    fields = expression.split()
    if len(fields) not in (5, 6):
        return False
    *before, month, weekday = fields
    try:
        next(_matching(" ".join((*before, "*", weekday)), _ANY_TIME), None)
        next(_matching(" ".join((*before[:-1], "*", month, weekday)), _ANY_TIME), None)
    except (CronSimError, ValueError):
        return False
    return True


def _check_expression(expression: str) -> None:
    from cronsim import CronSimError

    if not isinstance(expression, str) or len(expression) > EXPRESSION_LENGTH_MAX:
        raise InvalidScheduleError(
            f"a cron expression is text of at most {EXPRESSION_LENGTH_MAX} characters, "
            f"not {str(expression)[:80]!r}"
        )
    try:
        first = next(_matching(_fields(expression), _ANY_TIME), None)
    except (CronSimError, ValueError) as error:
        if _is_no_date(expression):
            raise InvalidScheduleError(_NEVER.format(expression)) from None
        said = f"{expression!r} is not a cron expression: {str(error).lower()}"
        if len(expression.split()) not in (5, 6):
            said += (
                "; five fields are needed, minute, hour, day of month, month and day of week, or "
                f"six with the seconds first, or one of {listed(SHORTHANDS)}"
            )
        raise InvalidScheduleError(said) from error
    if first is None:
        raise InvalidScheduleError(_NEVER.format(expression))
