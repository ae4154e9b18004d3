"""The wheel as users get it: with what it says it needs, for each extra, and with nothing else.

It is built, unpacked, and put on the path of a fresh interpreter together with those installed
distributions that its own metadata names: whatever is imported and not declared is missed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[^]]*)\])?[^;]*(?:;\s*(?P<marker>.*))?")
CALLS = """
from leasehold import TaskQueue
queue = TaskQueue("leasehold.db")
@queue.task
def double(number: int) -> int:
    return 2 * number
assert double.submit(21).result(timeout=60) == 42
queue.shutdown()
"""
TRIED = {
    "": CALLS,
    "cli": "from leasehold.cli.main import run; assert run(['init']) == run(['status']) == 0",
    "pydantic": CALLS + "import pydantic",
    "s3": "import leasehold.blobs.s3",
    "postgres": "import leasehold.stores.postgres.store",
    "redis": "import leasehold.stores.redis.accelerator, leasehold.stores.postgres.store",
    "service": "import leasehold.service.http, uvicorn, httptools",
    # The server side stands beside HTTP, and so on the extra `service`.
    "grpc": "import leasehold.stores.remote.channels, leasehold.stores.remote.store",
    "dashboard": "import leasehold.dashboard.app",
    "otel": "import opentelemetry.trace, leasehold.observe.tracing",
}
"""By extra, what is tried with it."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=240,
    )
    [built] = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def declared(wheel: Path) -> Distribution:
    [found] = Distribution.discover(path=[str(wheel)])
    return found


def needed(of: Distribution, extras: frozenset[str], seen: set[str]) -> Iterator[Distribution]:
    """What a distribution asks for with these extras, all the way down."""
    from packaging.markers import Marker

    for text in of.requires or ():
        found = REQUIREMENT.fullmatch(text)
        assert found is not None, text
        if found["marker"]:
            marker = Marker(found["marker"])
            if not any(marker.evaluate({"extra": each}) for each in (extras or {""})):
                continue
        more = frozenset(filter(None, re.split(r"[,\s]+", found["extras"] or "")))
        name = re.sub(r"[-_.]+", "-", found["name"]).lower()
        if f"{name}{sorted(more)}" in seen:
            continue
        seen.add(f"{name}{sorted(more)}")
        if name == "leasehold":
            yield from needed(of, more, seen)
            continue
        try:
            there = distribution(name)
        except PackageNotFoundError:
            pytest.fail(f"{of.name} needs {name}, which is not installed here")
        yield there
        yield from needed(there, more, seen)


def environment(wheel: Path, extra: str, folder: Path) -> Path:
    """A folder that holds the wheel and what it asks for, and nothing else."""
    place = folder / "site"
    place.mkdir()
    wanted = frozenset({extra} if extra else ())
    for each in (declared(wheel), *needed(declared(wheel), wanted, set())):
        for top in {file.parts[0] for file in each.files or () if file.parts[0] != ".."}:
            source, target = Path(str(each.locate_file(top))), place / top
            if source.exists() and not target.exists():
                target.symlink_to(source)
    return place


@pytest.mark.parametrize("extra", TRIED)
def test_it_has_all_that_it_asks_for_and_asks_for_all_that_it_needs(
    wheel: Path, extra: str, tmp_path: Path
) -> None:
    place = environment(wheel, extra, tmp_path)
    done = subprocess.run(
        # -S: nothing of the environment that the tests run in.
        [sys.executable, "-S", "-P", "-c", TRIED[extra]],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_extra_is_tried(wheel: Path) -> None:
    extras = declared(wheel).metadata.get_all("Provides-Extra") or []
    assert sorted(extras) == sorted(TRIED.keys() - {""})


def test_the_command_without_its_extra_says_what_to_install(wheel: Path, tmp_path: Path) -> None:
    place = environment(wheel, "", tmp_path)
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "leasehold", "status"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode != 0
    assert "pip install 'leasehold[cli]'" in done.stderr
    assert "Traceback" not in done.stderr
