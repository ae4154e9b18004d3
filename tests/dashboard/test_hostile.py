"""Whatever an address or a form says, a page answers, explains itself or refuses: never 500."""

from __future__ import annotations

from typing import Final

import pytest

from dashboard.conftest import People
from leasehold.dashboard.forms import FIELDS_OF
from leasehold.dashboard.routes import PAGES

PARAMETERS: Final = {
    "": "over done n",
    "jobs": "q cursor show",
    "jobs.json": "q",
    "jobs.csv": "q",
    "failures": "queue by since",
    "dead-letters": "queue task cursor",
    "workflows": "cursor",
    "audit": "cursor",
    "queue": "name over",
    "queue-rules": "name",
    "job": "id log",
    "workflow": "id",
    "operation": "id",
    "failure": "fingerprint",
    "confirm": "order",
    "login": "to",
}
"""By page, the parameters that it reads."""
WITHOUT: Final = {"queues", "schedules", "workers", "operations", "health", "settings"}
GARBAGE: Final = (
    "", " ", "-1", "9" * 30, "1e400", "a\x00b", "\r\nSet-Cookie: a=b", "<script>alert(1)</script>",
    "\"' onload=alert(1)", "{{7*7}}", "../../etc/passwd", "//evil.example/", "\u202egpj.exe",
    "\U0001f600", "%ff%fe", "\ufffe\uffff", "x" * 500,
)  # fmt: skip
SEARCHES: Final = (
    f"id:{'a,' * 900}", f"priority>{'9' * 40}", f"priority:{'9' * 4999}", "priority:²",
    f"created>-{'9' * 40}w", "ended<9999-12-31T23:59:59-12:00", "created>0001-01-01T00:00:00+12:00",
    "meta.a:\x00", "meta.\x00:a", "queue:\x00", 'meta.x:"', f"meta.n:{'9' * 4999}", "meta.n:1e999",
    "meta.n:nan", "status:\x00", "parent:\x00", "key:\x00", "error:\x00", 'task:"',
)  # fmt: skip


def test_every_page_is_named_here() -> None:
    beside = {"jobs.json", "jobs.csv", "confirm", "login"}
    assert {path for path, *_ in PAGES} == PARAMETERS.keys() - beside | WITHOUT


@pytest.mark.parametrize("path", PARAMETERS)
def test_no_parameter_breaks_a_page(people: People, path: str) -> None:
    ada = people.somebody("admin")
    broken = []
    for parameter in PARAMETERS[path].split():
        for value in GARBAGE + (SEARCHES if parameter == "q" else ()):
            answer = ada.get(path or ".", params={parameter: value})
            if answer.status_code >= 500 or "<script>alert" in answer.text:
                broken.append((parameter, value[:60], answer.status_code))
    assert broken == []


@pytest.mark.parametrize("order", sorted(FIELDS_OF))
def test_no_field_breaks_an_order(people: People, order: str) -> None:
    bob = people.somebody("operator")
    broken = []
    for value in GARBAGE:
        fields = {"order": order} | dict.fromkeys(FIELDS_OF[order], value)
        broken += [
            (answer.request.method, value[:60], answer.status_code)
            for answer in (bob.get("confirm", params=fields), bob.post("do", data=fields))
            if answer.status_code >= 500 or "<script>alert" in answer.text
        ]
    assert broken == []


@pytest.mark.parametrize("to", ["jobs?q=\U0001f600", "jobs?q=a\r\nSet-Cookie: a=b", "jobs?\x00"])
def test_no_way_back_breaks_the_log_in(people: People, to: str) -> None:
    secret = people.service.token("operator")
    answer = people.nobody().post("login", data={"token": secret, "to": to})
    assert answer.status_code == 303
    assert answer.headers["location"].isprintable()
    assert "a" not in answer.cookies
