"""The wheel as users get it: in a clean environment, bare and with each extra.

It is built once, and what it needs is fetched and unpacked once. Each environment then gets, from
there, exactly what pip finds that the wheel asks for: whatever is used and not declared is missed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.once import once_per_run

ROOT = Path(__file__).parent.parent
CALLS = """
from leasehold import TaskQueue
queue = TaskQueue("leasehold.db")
@queue.task
def double(number: int) -> int:
    return 2 * number
assert double.submit(21).result(timeout=60) == 42
queue.shutdown()
"""
MODELS = """
from leasehold import TaskQueue
from pydantic import BaseModel
class Order(BaseModel):
    number: int
queue = TaskQueue("leasehold.db")
@queue.task
def double(order: Order) -> Order:
    return Order(number=2 * order.number)
assert double.submit(Order(number=21)).result(timeout=60) == Order(number=42)
queue.shutdown()
"""
SIGNED = """
from leasehold.blobs.s3 import S3Blobs
blobs = S3Blobs("s3://bucket/jobs?region=eu-west-1&access_key_id=me&secret_access_key=secret")
assert "X-Amz-Signature" in blobs.sign("GET", "5e1f/1970-01-01/job.payload.0.0.ab")
"""
UNREACHABLE = """
from leasehold import StoreUnavailableError, TaskQueue
try:
    TaskQueue("{url}", num_workers=0).get_queue_stats()
except StoreUnavailableError as error:
    assert "127.0.0.1" in str(error), error
else:
    raise AssertionError("nobody listens there")
"""
SERVED = """
import json, os, signal, socket, threading, urllib.request
from leasehold.connect import connect
from leasehold.service.server import serve
listener = socket.create_server(("127.0.0.1", 0))
answers = []
signal.signal(signal.SIGTERM, lambda *_: None)  # A server passes on the signal that ended it.
def ask():
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/openapi.json"
        answers.append(json.load(urllib.request.urlopen(url, timeout=60)))
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
serve(connect("leasehold.db"), listener, insecure=True,
      on_started=lambda _: threading.Thread(target=ask).start())
assert "/api/v1/jobs" in str(answers), answers
"""
SHOWN = """
import asyncio
from leasehold import TaskQueue
from leasehold.dashboard import dashboard
sent = []
async def ask(app):
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
             "scheme": "http", "path": "/login", "raw_path": b"/login", "root_path": "",
             "query_string": b"", "headers": [(b"host", b"localhost")],
             "client": ("127.0.0.1", 1), "server": ("localhost", 80)}
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        sent.append(message)
    await app(scope, receive, send)
with TaskQueue("leasehold.db", num_workers=0) as queue:
    asyncio.run(ask(dashboard(queue)))
assert sent[0]["status"] == 200, sent
assert b"<html" in sent[1]["body"], sent
"""
TRACED = CALLS + "import opentelemetry.trace, leasehold.observe.tracing"
TRIED = {
    "": CALLS,
    "cli": "from leasehold.cli.main import run; assert run(['init']) == run(['status']) == 0",
    "pydantic": MODELS,
    "s3": SIGNED,
    "postgres": UNREACHABLE.format(url="postgresql://me@127.0.0.1:1/jobs"),
    "redis": UNREACHABLE.format(url="postgresql://me@127.0.0.1:1/jobs?redis=redis://127.0.0.1:1/0")
    + "import leasehold.stores.redis.accelerator",
    "service": SERVED,
    # The server side stands beside HTTP, and so on the extra `service`.
    "grpc": UNREACHABLE.format(url="grpc://127.0.0.1:1"),
    "dashboard": SHOWN,
    "otel": TRACED,
}
"""By extra, a program that uses it."""
BY_PIP = {"", "cli"}
"""Those that pip installs, commands and all. The others find the same wheels, unpacked once."""


RESOLVE = """
import sys
from pip._internal.cli.main import main
wheel, wheelhouse, reports, *extras = sys.argv[1:]
for extra in extras:
    asked = f"{wheel}[{extra}]"
    code = main([
        "--disable-pip-version-check", "--quiet", "install", "--dry-run", "--ignore-installed",
        "--no-index", "--find-links", wheelhouse, "--report", f"{reports}/{extra}.json", asked,
    ])
    assert code == 0, asked
"""
"""What pip would install with each extra, all told by one process: to start pip takes long."""


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and all that it may ask for; one for all processes of the suite."""
    return once_per_run(tmp_path_factory, "wheelhouse", _fill_wheelhouse)


def _fill_wheelhouse(place: Path) -> None:
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=ROOT)
    extras = ",".join(filter(None, TRIED))
    _run(*_pip("download", "--dest", place, f"{_wheel_in(place)}[{extras}]"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, wheelhouse: Path) -> Path:
    """Its wheels, each in a folder of its own, and by extra which of them pip would install."""

    def unpack(place: Path) -> None:
        place.mkdir()
        for each in wheelhouse.glob("*.whl"):
            with zipfile.ZipFile(each) as wheel:
                wheel.extractall(place / each.name)
        others = sorted(TRIED.keys() - BY_PIP)
        _run(sys.executable, "-c", RESOLVE, _wheel_in(wheelhouse), wheelhouse, place, *others)

    return once_per_run(tmp_path_factory, "unpacked", unpack)


def _wheel_in(folder: Path) -> Path:
    [wheel] = folder.glob("leasehold-*.whl")
    return wheel


def _pip(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


def installed(wheelhouse: Path, extra: str, folder: Path) -> Path:
    """The `bin` of a new environment in which pip has installed the wheel with this extra."""
    place = folder / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", place)
    wheel = f"{_wheel_in(wheelhouse)}[{extra}]" if extra else str(_wheel_in(wheelhouse))
    offline = ("--no-index", "--find-links", wheelhouse, "--no-compile")
    _run(*_pip("--python", place, "install", *offline, wheel))
    return place / "bin"


def laid_out(unpacked: Path, extra: str, folder: Path) -> Path:
    """The `bin` of a new environment that finds just the wheels that pip would install there."""
    place = folder / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", place)
    report = json.loads((unpacked / f"{extra}.json").read_bytes())
    urls = [each["download_info"]["url"] for each in report["install"]]
    found = [unpacked / unquote(url.rpartition("/")[2]) for url in urls]
    assert all(each.is_dir() and not list(each.glob("*.data")) for each in found), found
    [packages] = place.glob("lib/python*/site-packages")
    (packages / "wheels.pth").write_text("".join(f"{each}\n" for each in found))
    return place / "bin"


def tried(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run something there, with nothing of the environment that the tests run in."""
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("extra", TRIED)
def test_it_brings_all_that_it_needs(
    wheelhouse: Path, extra: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if extra in BY_PIP:
        programs = installed(wheelhouse, extra, tmp_path)
    else:
        programs = laid_out(request.getfixturevalue("unpacked"), extra, tmp_path)
    done = tried(tmp_path, programs / "python", "-c", TRIED[extra])
    assert done.returncode == 0, done.stderr
    if extra == "cli":
        assert "0 jobs" in tried(tmp_path, programs / "queuectl", "status").stdout
    elif not extra:
        refused = tried(tmp_path, programs / "queuectl", "status")
        assert refused.returncode != 0
        assert "pip install 'leasehold[cli]'" in refused.stderr
        assert "Traceback" not in refused.stderr


def metadata_of(wheelhouse: Path) -> Message:
    with zipfile.ZipFile(_wheel_in(wheelhouse)) as wheel:
        [metadata] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(wheel.read(metadata))


def test_the_dashboard_brings_the_libraries_of_its_pages_with_their_licences(
    wheelhouse: Path,
) -> None:
    vendored = ROOT / "src/leasehold/dashboard/static/vendor"
    with zipfile.ZipFile(_wheel_in(wheelhouse)) as wheel:
        names = wheel.namelist()
        for each in vendored.iterdir():
            inside = f"leasehold/dashboard/static/vendor/{each.name}"
            assert wheel.read(inside) == each.read_bytes(), each.name
    for licence in vendored.glob("*-LICENSE.txt"):
        assert [name for name in names if name.endswith(f"/licenses/{_within_src(licence)}")]
    assert metadata_of(wheelhouse)["License-Expression"] == "MIT AND 0BSD"


def _within_src(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_extra_is_tried(wheelhouse: Path) -> None:
    extras = metadata_of(wheelhouse).get_all("Provides-Extra") or []
    assert sorted(extras) == sorted(TRIED.keys() - {""})


def test_the_long_description_has_no_link_that_leads_nowhere(wheelhouse: Path) -> None:
    metadata = metadata_of(wheelhouse)
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert text.startswith("# Leasehold")
    assert "pip install leasehold" in text
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    assert "Dashboard | problems and their remedies" in text  # The words of links stay.
