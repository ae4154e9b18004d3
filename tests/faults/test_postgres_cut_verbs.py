"""The server ends the connection of every verb, at each kind of moment.

The same verbs are carried out once undisturbed, and once cut off each. Both must answer the same,
and hold the same in the end: nothing is lost, nothing done twice. Only a look may raise, and is
repeated; so may a sweep or a clean-up, of which a look is a part. Its answer does not say then what
it did before it was cut.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import pytest

from leasehold.core.contract.store import Store
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreUnavailableError
from support.every_verb import every_verb
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server.connection import (  # noqa: E402
    BEGIN,
    SqlConnection,
    SqlCursor,
)

pytestmark = pytest.mark.faults

END = b"SELECT pg_terminate_backend(%s, 30000)"
WITHOUT_STATEMENTS = {"close", "subscribe"}
MADE_UP = re.compile(
    r"(?<=version=)\d+|(?<='version': )\d+|(?<=version )\d+"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
EXECUTE = SqlConnection.execute


class Line:
    """The statements of this thread; the connection of some is ended when they are due."""

    def __init__(self, server: psycopg.Connection[Any] | None = None) -> None:
        self._server = server
        self._thread = threading.get_ident()
        self._cuts: list[Cut] = []
        self.sent: list[str] = []

    def cut(self, cuts: Sequence[Cut]) -> None:
        """Let the next verb be cut off so: its first try, its second, and so on."""
        self.sent.clear()
        self._cuts = list(cuts)

    def execute(self, db: SqlConnection, statement: str, values: Any = None) -> SqlCursor:
        if threading.get_ident() != self._thread:
            return EXECUTE(db, statement, values)
        self.sent.append(statement)
        if not (self._cuts and self._cuts[0].is_due(self.sent)):
            return EXECUTE(db, statement, values)
        cut = self._cuts.pop(0)
        self.sent.clear()
        if not cut.after:
            self._end(db)
            answer = EXECUTE(db, statement, values)
            if db._pipeline is not None:
                # Else it would be noticed only by who asks for rows.
                db._pipeline.sync()
            return answer
        # The server has done it, and its answer is lost.
        EXECUTE(db, statement, values)
        assert db._pipeline is not None
        db._pipeline.sync()
        self._end(db)
        raise psycopg.OperationalError("the connection was lost")

    def _end(self, db: SqlConnection) -> None:
        assert self._server is not None
        assert self._server.execute(END, (db.raw.info.backend_pid,)).fetchone() == (True,)

    @property
    def is_whole(self) -> bool:
        """Whether there is a cut that was not made."""
        return bool(self._cuts)


class Cut(NamedTuple):
    """When a verb is cut off."""

    is_due: Callable[[list[str]], bool]
    """Given the statements of this try; the last one is about to be sent."""
    after: bool = False
    """Whether the server has done it before."""


class Performed(NamedTuple):
    """A verb that was carried out."""

    verb: str
    told: str
    statements: tuple[str, ...]

    @property
    def writes(self) -> bool:
        return BEGIN in self.statements

    @property
    def looks(self) -> bool:
        return any("READ ONLY" in each for each in self.statements)


class Told:
    """Answers as text: numbers that grow, and ids that are made up, by which came first."""

    def __init__(self) -> None:
        self._met: dict[str, str] = {}

    def __call__(self, verb: str, answer: Any) -> str:
        match verb:
            case "describe":
                answer = answer["kind"]
            case "changes":
                answer = sorted(answer.changes, key=repr)
            case "signing_key" | "register_worker":
                answer = type(answer)
        return MADE_UP.sub(self._name, repr(answer))

    def _name(self, found: re.Match[str]) -> str:
        return self._met.setdefault(found[0], f"<{len(self._met)}>")


def perform_all(
    schemas: Schemas, perform: Callable[[Callable[[], Any]], Any]
) -> Iterator[tuple[str, str]]:
    """Carry out each verb on a store of its own, and tell what it answered."""
    url, clock, told = schemas.lend(), ManualClock(), Told()
    script = every_verb(clock)
    verb, call = next(script)
    with closing(PostgresStore(url, env=Env(clock=clock))) as store:
        with contextlib.suppress(StopIteration):
            while True:
                answer = perform(partial(call, store))
                yield verb, told(verb, answer)
                verb, call = script.send(answer)
        assert store.check() == []
    schemas.take_back(url)


def _method(line: Line) -> Callable[..., SqlCursor]:
    """One that is given the connection it is called on."""

    def execute(db: SqlConnection, statement: str, values: Any = None) -> SqlCursor:
        return line.execute(db, statement, values)

    return execute


@pytest.fixture
def line(schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    with psycopg.connect(schemas.url, autocommit=True) as server:
        line = Line(server)
        monkeypatch.setattr(SqlConnection, "execute", _method(line))
        yield line


@pytest.fixture(scope="module")
def undisturbed(schemas: Schemas) -> list[Performed]:
    """Every verb, as it should be."""
    line, done = Line(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlConnection, "execute", _method(line))
        for verb, told in perform_all(schemas, lambda call: call()):
            done.append(Performed(verb, told, tuple(line.sent)))
            line.sent.clear()
    return done


def test_no_verb_is_forgotten(undisturbed: list[Performed]) -> None:
    verbs = {name for name in dir(Store) if not name.startswith("_")}
    assert {each.verb for each in undisturbed} == verbs - WITHOUT_STATEMENTS


def test_a_verb_whose_connections_are_ended_is_done_once(
    schemas: Schemas, line: Line, undisturbed: list[Performed]
) -> None:
    """Within its transaction, then before the server has committed, then after that."""
    expected, raised = iter(undisturbed), set()

    def perform(call: Callable[[], Any]) -> Any:
        usual = next(expected)
        commits = usual.statements.count("COMMIT")
        cuts = [Cut(lambda sent: len(sent) > len(usual.statements) // 2)]
        if usual.writes and not usual.looks:
            cuts += [Cut(_is_commit), Cut(lambda sent: sent.count("COMMIT") == commits, after=True)]
        line.cut(cuts)
        try:
            return call()
        except StoreUnavailableError:
            assert usual.looks, usual.verb
            raised.add(usual.verb)
            return call()
        finally:
            assert not line.is_whole, usual.verb

    for usual, (verb, told) in zip(undisturbed, perform_all(schemas, perform), strict=True):
        assert verb == usual.verb
        assert told == usual.told or (usual.writes and verb in raised)


def _is_commit(sent: list[str]) -> bool:
    return sent[-1] == "COMMIT"
