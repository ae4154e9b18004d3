"""Makes `support` importable, in the tests and in the processes they start; settings for all."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

if TYPE_CHECKING:
    from leasehold.core.contract.store import Store
    from leasehold.env import Env
    from support.nursery import Nursery
    from support.servers import Schemas

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support.bytecode import forget_made_modules, keep_bytecode
from support.effort import drawn

keep_bytecode()

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Stores sync each write, and thousands are opened here: in memory that costs nothing. TMPDIR names
# another place, if a disk is to be tried.
IN_MEMORY = "/dev/shm"
ROOM_NEEDED = 4 << 30
ROOM = shutil.disk_usage(IN_MEMORY).free if os.path.isdir(IN_MEMORY) else 0
if "TMPDIR" not in os.environ and ROOM >= ROOM_NEEDED:
    os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY

# A forked child must not be the one that takes away what earlier tests have left behind: gRPC's
# servers, for one, would wait there for ever for threads that the child does not have.
os.register_at_fork(before=gc.collect, after_in_child=gc.disable)

# To look for garbage every 700 objects took a tenth of the time of tests that make many.
gc.set_threshold(10_000, 10, 10)

# No timing assertions, here neither: a machine that is busy fails no property.
hypothesis.settings.register_profile("leasehold", deadline=None, max_examples=drawn(100))
hypothesis.settings.load_profile("leasehold")


@pytest.fixture(scope="session")
def schemas() -> Iterator[Schemas]:
    """Schemas of a PostgreSQL server, which is started once per process that needs one."""
    from support.servers import Schemas, postgres

    with postgres() as url:
        lent = Schemas(url, f"test_{os.getpid()}")
        yield lent
        lent.close()


@pytest.fixture
def url(schemas: Schemas) -> Iterator[str]:
    """The URL of an empty store on that server, in a schema that the next test is lent again."""
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent)


@pytest.fixture
def lent_stores(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Env], Store]:
    """Makes empty PostgreSQL stores, for tests that make many."""
    from support.servers import needs_psycopg

    needs_psycopg()
    from leasehold.stores.postgres.server import lending
    from support.lent_store import LentStore

    schemas: Schemas = request.getfixturevalue("schemas")
    monkeypatch.setattr(lending, "open_pool", schemas.open_pool)
    return partial(LentStore, schemas)


@pytest.fixture
def indexed_stores(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Env], Store]]:
    """The same, with leases that find all jobs through Redis, which knows only a few of each lane;
    the rest is read on from there.
    """
    from support.redis_servers import needs_redis, redis_server

    needs_redis()
    request.getfixturevalue("lent_stores")
    from leasehold.stores.postgres.keeping import index_keeper
    from leasehold.stores.redis import address
    from support.indexed_store import IndexedStore

    # A busy machine is not to be taken for a server that is away.
    monkeypatch.setattr(address, "TIMEOUT_SECONDS", 20.0)
    monkeypatch.setattr(index_keeper, "SPOTS_KEPT", 3)
    monkeypatch.setattr(index_keeper, "DEAD_ROWS_MIN", -1)
    with redis_server() as server:
        yield partial(IndexedStore, request.getfixturevalue("schemas"), server)


@pytest.fixture(scope="session")
def commands() -> Iterator[Nursery]:
    """Where commands of the command line come from, quickly."""
    from support.nursery import nursery

    with nursery() as made:
        yield made


class OnlyWhereExamplesAre:
    """Modules without an example in their text are not gone through for one."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if file_path.suffix != ".py" or b">>>" in file_path.read_bytes():
            return found
        return [each for each in found if not isinstance(each, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    # For files that are not beside this one, too.
    config.pluginmanager.register(OnlyWhereExamplesAre())


LONG = (
    "tests/faults/test_crash_images.py",
    "tests/service/test_remote_processes.py",
    "tests/simulation/",
    "tests/stores/test_bounds.py",
    "tests/stores/test_postgres_plans.py",
    "tests/test_wheel.py",
)
"""Where one test, or what it stands on, takes many times as long as others do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those come first: at the end of a run nobody is to wait for one that was begun late."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection_finish() -> None:
    """Tests, modules and their like live as long as the run: none of it is garbage."""
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """What outlives the tests of a module lives on: no fork after it looks through that again.

    Every fork looks for garbage first, and late in a run that took longer than most tests.
    """
    done = yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return done


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last process of a run, which has waited for the others, tidies up."""
    if not hasattr(config, "workerinput"):
        forget_made_modules()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out and why, a line per reason: failures are the last words of a run."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ").partition(": ")[0]
        for report in terminalreporter.stats.get("skipped", [])
    )
    if reasons:
        terminalreporter.section("left out")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:5}  {reason}")
