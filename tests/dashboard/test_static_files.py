"""The files of pages: libraries as they were published, small on the way, and asked for once."""

from __future__ import annotations

import gzip
import hashlib
import re
from typing import Final

import pytest

from dashboard.conftest import People
from leasehold.dashboard import static_files

VENDOR: Final = static_files.FOLDER / "vendor"
LINE: Final = re.compile(r"^\| (\S+) \| (\S+) .*? \| ([\d.]+) \| .*?`(\S+)` \| ([0-9a-f]{64}) \|$")
VERSION_WITHIN: Final = {
    "htmx.min.js": 'version:"{}"',
    "uPlot.iife.min.js": "uPlot (v{})",
}
OWN_LINES_MAX: Final = 200


def listed() -> list[tuple[str, str, str, str, str]]:
    """The table of README.md: file, package, version, licence, digest."""
    lines = (VENDOR / "README.md").read_text(encoding="utf-8").splitlines()
    return [found.groups() for line in lines if (found := LINE.match(line))]  # type: ignore[misc]


def test_libraries_are_those_of_the_versions_named() -> None:
    for name, _, version, licence, digest in listed():
        body = (VENDOR / name).read_bytes()
        assert hashlib.sha256(body).hexdigest() == digest, name
        if name in VERSION_WITHIN:
            assert VERSION_WITHIN[name].format(version) in body.decode(), name
        assert "Permission" in (VENDOR / licence).read_text(encoding="utf-8")


def test_every_library_is_listed() -> None:
    known = {name for line in listed() for name in (line[0], line[3])} | {"README.md"}
    assert {each.name for each in VENDOR.iterdir()} == known
    assert {line[1] for line in listed()} == {"htmx.org", "uplot"}


def test_scripts_of_our_own_are_short() -> None:
    for name, body in static_files.contents().items():
        if name.endswith(".js") and "/" not in name:
            assert len(body.splitlines()) <= OWN_LINES_MAX, name


def test_a_file_is_asked_for_once_and_comes_packed(people: People) -> None:
    client = people.somebody("operator")
    page = client.get("").text
    addresses = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
    names = {address.partition("?")[0].removeprefix("static/") for address in addresses}
    assert {"vendor/htmx.min.js", "app.js", "app.css", "mark.svg"} <= names
    for address in addresses:
        name = address.partition("?")[0].removeprefix("static/")
        whole = client.get(address, headers={"Accept-Encoding": "identity"})
        assert whole.content == static_files.contents()[name]
        assert "immutable" in whole.headers["cache-control"]
        packed = client.get(address)
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.content == whole.content
        assert "Accept-Encoding" in packed.headers["vary"]
        # Whoever asks again all the same, as a browser does when it is told to, is sent nothing.
        again = client.get(address, headers={"If-None-Match": whole.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_a_file_of_another_version_is_not_kept(people: People) -> None:
    """Where servers of two versions stand side by side, the page may be of the other one."""
    client = people.nobody()
    for address in ("static/app.js?v=012345678901", "static/app.js"):
        answer = client.get(address)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-cache"


def test_packing_makes_texts_small() -> None:
    for name, body in static_files.contents().items():
        assert gzip.decompress(static_files.packed(name)) == body
    whole = sum(len(body) for body in static_files.contents().values())
    assert sum(len(static_files.packed(name)) for name in static_files.contents()) < whole / 2


@pytest.mark.parametrize("path", ["static/../app.py", "static/vendor", "static/nothing.js"])
def test_nothing_else_is_served(people: People, path: str) -> None:
    assert people.somebody("operator").get(path).status_code == 404


def test_pages_without_charts_do_not_load_what_draws_them(people: People) -> None:
    client = people.somebody("operator")
    people.queue.submit("a", queue="light")
    assert "uPlot" in client.get("").text
    assert "uPlot" in client.get("queue?name=light").text
    for path in ("jobs", "queues", "failures", "workers"):
        assert "uPlot" not in client.get(path).text
