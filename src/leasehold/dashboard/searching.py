"""The search box: qualifiers such as `queue:mail status:dead priority>50`, and words.

Its meaning is a `JobFilter`, the same as everywhere. A mistake is explained where it was made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

from leasehold.core.model.job import priority_of
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.errors import InvalidJobError, LeaseholdError

TEXT_SECONDS: Final = 24 * 3600
"""Words are looked for in payloads and errors of jobs no older than this, unless a time is given:
nothing but reading them finds them.
"""
_TERM: Final = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_][\w.-]*)(?P<sign>:|>=|<=|>|<))?"""
    r"""(?P<value>"(?:[^"\\]|\\.)*"|[^\s"]\S*)?"""
)
_ESCAPED: Final = re.compile(r'\\(["\\])')
_NEEDS_QUOTES: Final = re.compile(r'[\s",]')
_SPAN: Final = re.compile(r"-?(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhdw])")
_EXCLUDED: Final = re.compile(r"-([A-Za-z_][\w.-]*)[:<>].*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
DIGITS_MAX: Final = 300
"""Nobody can be looking for a longer number."""
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

QUALIFIERS: Final = {
    "queue": "queue:mail",
    "task": "task:send_invoice",
    "status": "status:dead",
    "error": "error:Timeout",
    "id": "id:0192ab…",
    "key": "key:order-17",
    "limit_key": "limit_key:acme",
    "parent": "parent:0192ab…",
    "priority": "priority>50",
    "created": "created>-1h",
    "ended": "ended>-1h",
    "meta.": "meta.tenant:acme",
}
"""Every qualifier, with an example; the help below the box and the completion show them."""


class SearchError(ValueError):
    """Raised for an invalid search; says which part and why."""


@dataclass(frozen=True)
class Search:
    """The text of the search."""

    where: JobFilter
    looks_back_to: datetime | None = None
    """Words are searched only in jobs since then."""


def parse(query: str, now: datetime) -> Search:
    """The filter that a search means; raises SearchError.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> parse("queue:mail status:dead priority>50 meta.tenant:acme", noon).where.metadata
    {'tenant': 'acme'}
    >>> parse("stauts:dead", noon)
    Traceback (most recent call last):
    leasehold.dashboard.searching.SearchError: unknown qualifier “stauts”: did you mean “status”?
    """
    fields: dict[str, Any] = {}
    words: list[str] = []
    place = 0
    query = query.rstrip()
    while place < len(query):
        term = _TERM.match(query, place)
        if term is None or term.end() == place:
            raise SearchError(f"a quote is not closed: {query[place:]}")
        place = term.end()
        name, sign, given = term["name"], term["sign"], term["value"] or ""
        is_quoted = given.startswith('"')
        value = _ESCAPED.sub(r"\1", given[1:-1]) if is_quoted else given
        if name is None:
            if not is_quoted:
                _check_word(value)
            words.append(value)
        elif not value:
            raise SearchError(f"“{name}{sign}” needs a value, such as {_example(name)}")
        else:
            # The name of a tag is the submitter's, in whichever case.
            known = f"meta.{name[5:]}" if name.lower().startswith("meta.") else name.lower()
            _take(fields, known, sign, value, now, is_quoted=is_quoted)
    if words:
        fields["text"] = " ".join(words)
    since = None
    if "text" in fields and not fields.keys() & {"created_from", "finished_from", "ids"}:
        since = fields["created_from"] = now - timedelta(seconds=TEXT_SECONDS)
    return Search(JobFilter(**fields), since)


def _check_word(word: str) -> None:
    """Refuse what other search boxes understand, and this one would look for as a text."""
    if word in ("AND", "OR", "NOT"):
        raise SearchError(
            f"all terms have to match, and “{word}” is none: several values of one are given with "
            f'a comma, such as status:failed,dead; as a text it is "{word}", in quotes'
        )
    excluded = _EXCLUDED.fullmatch(word)
    if excluded is not None and (excluded[1] in QUALIFIERS or excluded[1].startswith("meta.")):
        raise SearchError(f"“{word}”: a search can leave nothing out")


def quoted(value: object) -> str:
    r"""A value as it stands in a search: in quotes if it would be taken for something else.

    >>> quoted("mail"), quoted('a "b", c')
    ('mail', '"a \\"b\\", c"')
    """
    told = str(value)
    if told and not _NEEDS_QUOTES.search(told):
        return told
    return '"' + told.replace("\\", "\\\\").replace('"', '\\"') + '"'


def search_of_tag(name: str, value: object) -> str | None:
    """The search for jobs with a tag in their metadata; None if no search can say it.

    >>> search_of_tag("order", 17), search_of_tag("order", "17"), search_of_tag("Paid", True)
    ('meta.order:17', 'meta.order:"17"', 'meta.Paid:true')
    >>> search_of_tag("order id", "a"), search_of_tag("note", ""), search_of_tag("note", None)
    (None, None, None)
    """
    told = quoted(value)
    if isinstance(value, bool):
        told = str(value).lower()
    elif isinstance(value, str) and not isinstance(_plain(value), str):
        told = f'"{value}"'
    query = f"meta.{name}:{told}"
    try:
        where = parse(query, datetime.min.replace(tzinfo=UTC)).where
    except (SearchError, LeaseholdError, OverflowError):
        return None
    found = (where.metadata or {}).get(name)
    is_meant = where == JobFilter(metadata={name: found}) and found == value
    return query if is_meant and type(found) is type(value) else None


def _take(
    fields: dict[str, Any], name: str, sign: str, value: str, now: datetime, *, is_quoted: bool
) -> None:
    if name.startswith("meta."):
        _only_equal(name, sign)
        if name == "meta.":
            raise SearchError(f"“{name}” needs the name of a tag, such as {QUALIFIERS[name]}")
        fields.setdefault("metadata", {})[name[5:]] = value if is_quoted else _plain(value)
    elif name in _MANY:
        _only_equal(name, sign)
        field_name, convert = _MANY[name]
        given = tuple(convert(each) for each in ([value] if is_quoted else value.split(",")))
        fields[field_name] = (*fields.get(field_name, ()), *given)
    elif name in _ONE:
        _only_equal(name, sign)
        if _ONE[name] in fields:
            raise SearchError(f"“{name}:” is given twice")
        fields[_ONE[name]] = value
    elif name == "priority":
        _take_priority(fields, sign, value)
    elif name in _MOMENTS:
        _take_moment(fields, name, sign, value, now)
    else:
        near = get_close_matches(name, [each for each in QUALIFIERS if each != "meta."], n=1)
        meant = f"did you mean “{near[0]}”?" if near else f"there are {', '.join(QUALIFIERS)}"
        raise SearchError(f"unknown qualifier “{name}”: {meant}")


def _take_priority(fields: dict[str, Any], sign: str, value: str) -> None:
    is_number = value.isascii() and value.isdecimal() and len(value) <= DIGITS_MAX
    try:
        bound = priority_of(int(value) if is_number else value)  # type: ignore[arg-type]
    except InvalidJobError as error:
        raise SearchError(str(error)) from None
    if sign in (":", ">=", ">"):
        fields["priority_min"] = bound + (sign == ">")
    if sign in (":", "<=", "<"):
        fields["priority_max"] = bound - (sign == "<")


def _take_moment(fields: dict[str, Any], name: str, sign: str, value: str, now: datetime) -> None:
    if sign == ":":
        raise SearchError(f"say {name}>… or {name}<…, such as {name}>-1h")
    bound = "from" if sign in (">", ">=") else "before"
    fields[f"{_MOMENTS[name]}_{bound}"] = _moment(value, now)


def _moment(value: str, now: datetime) -> datetime:
    span = _SPAN.fullmatch(value)
    try:
        if span is not None:
            return now - timedelta(seconds=float(span["number"]) * _UNIT_SECONDS[span["unit"]])
        moment = datetime.fromisoformat(value)
    except OverflowError:
        raise SearchError(f"“{value}” is out of range: say -1h, -2d, or a date") from None
    except ValueError:
        raise SearchError(
            f"“{value}” is not a time: say -1h, -2d, or 2030-01-31T12:00 (UTC)"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _status(value: str) -> Status:
    try:
        return Status(value.lower())
    except ValueError as error:
        raise SearchError(str(error)) from None


def _only_equal(name: str, sign: str) -> None:
    if sign != ":":
        raise SearchError(f"“{name}” is compared with a colon, such as {_example(name)}")


def _example(name: str) -> str:
    if name.startswith("meta."):
        return f"{name}:acme"
    return QUALIFIERS.get(name, QUALIFIERS["queue"])


def _plain(value: str) -> str | int | float | bool:
    """A value of metadata without quotes: a number or a truth value where it looks like one.

    >>> _plain("17"), _plain("-0.5"), _plain("true"), _plain("007"), _plain("1_000"), _plain("nan")
    (17, -0.5, True, '007', '1_000', 'nan')
    """
    if value in ("true", "false"):
        return value == "true"
    if _NUMBER.fullmatch(value) is None or len(value) > DIGITS_MAX:
        return value
    return float(value) if "." in value else int(value)


_MANY: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "queue": ("queues", str),
    "task": ("tasks", str),
    "status": ("statuses", _status),
    "id": ("ids", str),
}
_MOMENTS: Final = {"created": "created", "ended": "finished"}
_ONE: Final = {
    "error": "error_text",
    "key": "idempotency_key",
    "limit_key": "limit_key",
    "parent": "parent_id",
}
