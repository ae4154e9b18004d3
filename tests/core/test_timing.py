"""Timings: which tick comes next, also where clocks are set forward and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.ticks import latest_ticks, ticks_between
from leasehold.core.model.timing import SHORTHANDS, Cron, Every, Timing
from leasehold.errors import InvalidScheduleError, LeaseholdError

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(expression: str, zone: str, day: str) -> list[str]:
    """What the clock on the wall shows at the ticks of one local day, and its offset."""
    timing, place = Cron(expression, zone), ZoneInfo(zone)
    start = datetime.fromisoformat(day).replace(tzinfo=place)
    end = datetime.fromisoformat(day).replace(hour=23, minute=59, tzinfo=place)
    ticks = ticks_between(timing, start.astimezone(UTC) - timedelta(seconds=1), end.astimezone(UTC))
    return [f"{tick.astimezone(place):%H:%M%z}" for tick in ticks]


# -- clocks that are set forward and back ------------------------------------------------------

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("expression", "zone", "day", "expected"),
    [
        # Berlin skips 2:00 to 3:00: what is skipped ticks once, at the first moment after it.
        ("30 2 * * *", BERLIN, "2030-03-31", ["03:00+0200"]),
        ("0 2 * * *", BERLIN, "2030-03-31", ["03:00+0200"]),
        ("15,30,45 2 * * *", BERLIN, "2030-03-31", ["03:00+0200"]),
        ("0 2,3 * * *", BERLIN, "2030-03-31", ["03:00+0200"]),
        ("30 1-3 * * *", BERLIN, "2030-03-31", ["01:30+0100", "03:00+0200", "03:30+0200"]),
        # Berlin shows 2:00 to 3:00 twice: a time of day ticks the first time.
        ("30 2 * * *", BERLIN, "2030-10-27", ["02:30+0200"]),
        ("0 2,3 * * *", BERLIN, "2030-10-27", ["02:00+0200", "03:00+0100"]),
        # New York, where 2:00 to 3:00 is skipped and 1:00 to 2:00 occurs twice.
        ("30 2 * * *", NEW_YORK, "2030-03-10", ["03:00-0400"]),
        ("30 1 * * *", NEW_YORK, "2030-11-03", ["01:30-0400"]),
        ("30 1 * * *", NEW_YORK, "2030-03-10", ["01:30-0500"]),
        # Lord Howe, by half an hour: 2:00 to 2:30 is skipped, 1:30 to 2:00 occurs twice.
        ("15 2 * * *", LORD_HOWE, "2030-10-06", ["02:30+1100"]),
        ("45 2 * * *", LORD_HOWE, "2030-10-06", ["02:45+1100"]),
        ("45 1 * * *", LORD_HOWE, "2030-04-07", ["01:45+1100"]),
        # A star goes on by real time: every half hour, whatever the clock shows.
        ("*/30 1-3 * * *", BERLIN, "2030-03-31",
         ["01:00+0100", "01:30+0100", "03:00+0200", "03:30+0200"]),
        ("*/30 2 * * *", BERLIN, "2030-10-27",
         ["02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100"]),
        ("*/20 1 * * *", LORD_HOWE, "2030-04-07",
         ["01:00+1100", "01:20+1100", "01:40+1100", "01:40+1030"]),
        ("*/10 3 * * *", LORD_HOWE, "2030-10-06",
         ["03:00+1100", "03:10+1100", "03:20+1100", "03:30+1100", "03:40+1100", "03:50+1100"]),
        # Seconds first, by the same rule.
        ("0 30 2 * * *", BERLIN, "2030-03-31", ["03:00+0200"]),
        ("0 30 2 * * *", BERLIN, "2030-10-27", ["02:30+0200"]),
        # A whole day that Samoa never had.
        ("0 12 * * *", "Pacific/Apia", "2011-12-31", ["00:00+1400", "12:00+1400"]),
    ],
)  # fmt: skip
def test_clocks_set_forward_and_back(
    expression: str, zone: str, day: str, expected: list[str]
) -> None:
    assert shown(expression, zone, day) == expected


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, LORD_HOWE])
def test_every_quarter_of_an_hour_never_stops(zone: str) -> None:
    """Around each day on which the clock is set, which is where it might."""
    year = [utc("2030-01-01") + n * DAY for n in range(366)]
    place = ZoneInfo(zone)
    set_on = [
        one
        for one, two in pairwise(year)
        if one.astimezone(place).utcoffset() != two.astimezone(place).utcoffset()
    ]
    assert len(set_on) == 2
    for day in set_on:
        ticks = list(ticks_between(Cron("*/15 * * * *", zone), day - 7 * DAY, day + 7 * DAY))
        assert len(ticks) == 14 * 24 * 4
        assert {two - one for one, two in pairwise(ticks)} == {15 * MINUTE}


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK])
def test_every_hour_of_a_year_ticks(zone: str) -> None:
    start = utc("2030-01-01")
    ticks = list(ticks_between(Cron("0 * * * *", zone), start, start + 366 * DAY))
    assert {two - one for one, two in pairwise(ticks)} == {60 * MINUTE}


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("expression", ["30 2 * * *", "45 1 * * *", "10 2 * * *"])
def test_a_time_of_day_ticks_once_every_day(expression: str, zone: str) -> None:
    start = utc("2029-12-31T12:00")
    ticks = ticks_between(Cron(expression, zone), start, start + 365 * DAY)
    days = [tick.astimezone(ZoneInfo(zone)).date() for tick in ticks]
    assert len(days) == len(set(days)) == 365


@given(
    zone=st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "America/Havana", "Asia/Beirut", "UTC"]),
    around=st.sampled_from(["03-10", "03-31", "04-07", "10-06", "10-27", "11-03", "07-01"]),
    hours=st.sets(st.integers(0, 23), min_size=1),
    minutes=st.sets(st.integers(0, 11).map(lambda five: five * 5), min_size=1, max_size=4),
    every_hour=st.booleans(),
    begin=st.integers(0, 24 * 60 * 60),
)
def test_ticks_are_those_of_a_clock_that_is_watched_minute_by_minute(
    zone: str, around: str, hours: set[int], minutes: set[int], every_hour: bool, begin: int
) -> None:
    hour_field = "*" if every_hour else ",".join(map(str, sorted(hours)))
    expression = f"{','.join(map(str, sorted(minutes)))} {hour_field} * * *"
    place = ZoneInfo(zone)
    start = utc(f"2030-{around}") - DAY + timedelta(seconds=begin)
    found = list(ticks_between(Cron(expression, zone), start, start + 2 * DAY))

    def matches(local: datetime) -> bool:
        return local.minute in minutes and (every_hour or local.hour in hours)

    first = start.replace(second=0, microsecond=0) - DAY
    watched = [first + n * MINUTE for n in range(4 * 24 * 60)]
    walls = [moment.astimezone(place).replace(tzinfo=None) for moment in watched]
    expected: list[datetime] = []
    highest = walls[0] - MINUTE
    for moment, wall in zip(watched, walls, strict=True):
        if every_hour:
            ticks = matches(wall)
        else:
            # All that the clock passes for the first time, be it shown or jumped over.
            passed = int((wall - highest) / MINUTE)
            ticks = any(matches(highest + n * MINUTE) for n in range(1, passed + 1))
        highest = max(highest, wall)
        if ticks and start < moment <= start + 2 * DAY:
            expected.append(moment)
    assert found == expected


# -- any timing --------------------------------------------------------------------------------

moments = st.datetimes(
    datetime(1990, 1, 1),  # noqa: DTZ001
    datetime(2090, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
timings: st.SearchStrategy[Timing] = st.one_of(
    st.builds(Every, st.floats(0.1, 1e6), st.none() | moments),
    st.builds(
        Cron,
        st.sampled_from(
            ["* * * * *", "*/7 * * * *", "30 2 * * *", "5,50 1-3 * * *", "0 0 L * *",
             "0 9 * * MON#1",
             "0 0 29 2 *", "*/10 * * * * *", "15 30 1 * * 0", "@hourly", "@weekly"]
        ),
        st.sampled_from(["UTC", BERLIN, NEW_YORK, LORD_HOWE]),
    ),
)  # fmt: skip


@given(timings, moments)
def test_ticks_strictly_grow_and_none_is_left_out(timing: Timing, moment: datetime) -> None:
    one = timing.next_after(moment)
    assert one is not None
    assert one > moment
    assert one.tzinfo is UTC
    two = timing.next_after(one)
    assert two is not None
    assert two > one
    # From anywhere before the tick, it is the tick that comes next.
    for share in (0.001, 0.5, 0.999):
        between = moment + (one - moment) * share
        if between < one:
            assert timing.next_after(between) == one
    assert timing.next_after(two - timedelta(microseconds=1)) == two


@given(timings, moments, st.integers(1, 20), st.floats(0, 60))
def test_the_latest_ticks_are_the_last_of_all(
    timing: Timing, moment: datetime, limit: int, periods: float
) -> None:
    first = timing.next_after(moment)
    assert first is not None
    second = timing.next_after(first)
    assert second is not None
    until = first + (second - first) * periods
    every = [first, *ticks_between(timing, first, until)]
    assert latest_ticks(timing, first, until, limit) == tuple(every[-limit:])


def test_few_steps_find_the_last_of_millions() -> None:
    calls = 0

    class Counted(Cron, frozen=True):
        def next_after(self, moment: datetime) -> datetime | None:
            nonlocal calls
            calls += 1
            return super().next_after(moment)

    night = Counted("* * 3 * * *", BERLIN)
    first = night.next_after(utc("2000-01-01"))
    assert first is not None
    latest = latest_ticks(night, first, utc("2030-06-01T12:00"), 3)
    assert [f"{tick:%d %H:%M:%S}" for tick in latest] == [
        "01 01:59:57", "01 01:59:58", "01 01:59:59",
    ]  # fmt: skip
    assert calls < 150


@given(timings)
def test_a_timing_travels_as_data(timing: Timing) -> None:
    assert msgspec.json.decode(msgspec.json.encode(timing), type=Timing) == timing


def test_an_interval_is_counted_from_1970_or_from_its_start() -> None:
    assert Every(3600).next_after(utc("2030-01-01T10:20")) == utc("2030-01-01T11:00")
    from_then = Every(3600, starting=utc("2030-01-01T10:30"))
    assert from_then.next_after(utc("2029-01-01")) == utc("2030-01-01T10:30")
    assert from_then.next_after(utc("2030-01-01T10:30")) == utc("2030-01-01T11:30")


def test_the_end_of_the_calendar_is_no_error() -> None:
    last = utc("9999-12-31T23:59:30")
    assert Every(60).next_after(last) is None
    assert Cron("* * * * *", BERLIN).next_after(last) is None
    assert list(ticks_between(Every(60), last, last)) == []


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds", [0, -1, 0.01, SECONDS_MAX * 2, float("nan"), float("inf"), True, "0s", "soon"]
)
def test_an_absurd_interval_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidScheduleError, match="interval"):
        Every(seconds)


def test_a_start_without_a_time_zone_is_refused() -> None:
    with pytest.raises(InvalidScheduleError, match="time zone"):
        Every(60, starting=datetime(2030, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "a b c d e", "*/0 * * * *",
     "5-1 * * * *", "@noon", "9" * 300, None, 5],
)  # fmt: skip
def test_a_bad_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidScheduleError, match="cron expression"):
        Cron(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 */30 2 SUN#5",  # The 1st is no fifth Sunday, and there is no 31st.
        "0 0 30 2 *",
        "0 0 31 4,6 *",
    ],
)
def test_a_date_that_never_comes_is_refused(expression: str) -> None:
    with pytest.raises(InvalidScheduleError, match="never fires: no date matches it"):
        Cron(expression)


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "America", "../etc/passwd", "a\0b", None, 5, []]
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidScheduleError, match="time zone"):
        Cron("* * * * *", zone)


@given(st.text(alphabet="0123456789*/,-#LWMONJAN @", max_size=30) | st.text(max_size=30))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        timing = Cron(text, BERLIN)
    except LeaseholdError:
        return
    tick = timing.next_after(utc("2030-01-01"))
    assert tick is None or tick > utc("2030-01-01")


def test_shorthands() -> None:
    for shorthand, expression in SHORTHANDS.items():
        moment = utc("2030-05-05T05:05")
        assert Cron(shorthand).next_after(moment) == Cron(expression).next_after(moment)


def test_a_bad_field_is_named_and_missing_ones_are_explained() -> None:
    with pytest.raises(InvalidScheduleError) as bad:
        Cron("61 * * * *")
    assert str(bad.value) == "'61 * * * *' is not a cron expression: bad minute"
    with pytest.raises(InvalidScheduleError, match="five fields are needed"):
        Cron("61 * *")


def test_an_interval_is_rounded_to_the_nearest_microsecond() -> None:
    """A millionth too short, ten thousand times, is a hundredth of a second."""
    first = Every(1.0000009).next_after(utc("1970-01-01"))
    assert first == utc("1970-01-01") + timedelta(microseconds=1_000_001)
