"""Statements of one transaction, sent together when the result of one of them is needed.

psycopg's own pipeline sends each statement separately, and checks each time whether anything came
back: two system calls here and a wake-up of the server for each. That was most of the cost of a
write of one job. Here statements gather in libpq's buffer and are sent in one piece, with a request
to answer all of them; psycopg still converts values and rows, and does the waiting.

A caller waits only for the answer that it needs: with statements about many rows, the server
carries out the next one while the rows of the previous one are processed. A slow statement can be
sent early (`push`), and then runs in parallel with the work here.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.waiting import Wait

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from leasehold.stores.postgres.server.silence import ListeningConnection

Row = tuple[Any, ...]
Waiting = Generator[Wait, int, None]
StatementKey = tuple[bytes, tuple[int, ...]]
"""A statement, and the types of its values."""

PREPARED_MAX: Final = 200
"""How many statements a connection keeps prepared; beyond that, the least recently used are
dropped.
"""


class Prepared:
    """The statements that one connection has used: each is prepared on its second use."""

    def __init__(self) -> None:
        self._names: OrderedDict[StatementKey, bytes] = OrderedDict()
        """The name is empty for a statement used once and not prepared."""
        self._made = 0

    def name_of(self, key: StatementKey) -> tuple[bytes, bool]:
        """Its name, or an empty one if it is sent unprepared; and whether it has to be prepared."""
        name = self._names.get(key)
        if name is None:
            self._names[key] = b""
            return b"", False
        self._names.move_to_end(key)
        if name:
            return name, False
        self._made += 1
        self._names[key] = name = b"leasehold_%d" % self._made
        return name, True

    def failed(self, key: StatementKey) -> None:
        """Forget a statement that the server failed to prepare."""
        self._names.pop(key, None)

    def surplus(self) -> Iterator[bytes]:
        """The names of the statements to drop."""
        while len(self._names) > PREPARED_MAX:
            name = self._names.popitem(last=False)[1]
            if name:
                yield name


class Reply:
    """The result of a statement, fetched when needed."""

    __slots__ = ("_pipeline", "_rows", "prepares", "result")

    def __init__(
        self,
        pipeline: Pipeline,
        prepares: StatementKey | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._rows: Iterator[Row] | None = None
        self.prepares = prepares
        """The statement that this prepares, if it does only that."""
        self.result: PGresult | None = None

    @property
    def rowcount(self) -> int:
        count = self._received().command_tuples
        return -1 if count is None else count

    def __iter__(self) -> Iterator[Row]:
        if self._rows is None:
            self._rows = iter(self._pipeline.rows(self._received()))
        return self._rows

    def fetchone(self) -> Row | None:
        return next(iter(self), None)

    def fetchall(self) -> list[Row]:
        return list(self)

    def _received(self) -> PGresult:
        if self.result is None:
            self._pipeline.receive(self)
        assert self.result is not None
        return self.result


class Pipeline:
    """The pipeline of one connection; between `begin` and `end` statements are sent through it."""

    def __init__(self, raw: ListeningConnection, *, may_prepare: bool) -> None:
        self._pgconn = raw.pgconn
        self._wait = raw.wait
        self._transformer = Transformer(raw)
        self._loader = Transformer(raw)
        self._prepared = Prepared() if may_prepare else None
        self._sent: deque[Reply | None] = deque()
        """The unanswered statements in order, with None at the end of each part."""
        self._is_asked_to_answer = True
        """Whether the server was asked to answer all of them; otherwise it may wait for more."""

    def begin(self) -> None:
        self._sent.clear()
        self._pgconn.enter_pipeline_mode()

    def end(self) -> None:
        """Wait for everything; raises the first error."""
        error: Exception | None = None
        self._close_part()
        while self._sent:
            try:
                self._wait(self._communicate())
            except psycopg.Error as first:
                error = error or first
                if self._pgconn.status == ConnStatus.BAD:
                    raise error from None
        self._pgconn.exit_pipeline_mode()
        if error is not None:
            raise error

    def give_up(self) -> None:
        """The same, after an error that is more informative than its consequences."""
        if self._pgconn.status == ConnStatus.BAD:
            return
        with suppress(psycopg.Error):
            self.end()

    def sync(self) -> None:
        """Wait for everything sent so far."""
        self._close_part()
        self._wait(self._communicate())

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Reply:
        """Send one statement with the others."""
        pgconn, query = self._pgconn, statement.encode()
        dumped: Any = None
        types: tuple[int, ...] = ()
        formats: Sequence[Format] | None = None
        if values:
            transformer = self._transformer
            dumped = transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
            types, formats = transformer.types or (), transformer.formats
        name = b""
        if self._prepared is not None:
            name, is_new = self._prepared.name_of((query, types))
            if is_new:
                pgconn.send_prepare(name, query, types)
                self._sent.append(Reply(self, (query, types)))
                for old in self._prepared.surplus():
                    pgconn.send_query_params(b"DEALLOCATE " + old, None)
                    self._sent.append(Reply(self))
        if name:
            pgconn.send_query_prepared(name, dumped, formats, Format.BINARY)
        else:
            pgconn.send_query_params(query, dumped, types, formats, Format.BINARY)
        reply = Reply(self)
        self._sent.append(reply)
        self._is_asked_to_answer = False
        return reply

    def push(self) -> None:
        """Make the server begin with everything sent so far."""
        self._pgconn.flush()

    def rows(self, result: PGresult) -> list[Row]:
        """The rows of a statement that was answered."""
        if not result.ntuples:
            return []
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, result.ntuples, tuple)

    def receive(self, wanted: Reply) -> None:
        """Wait for the answer to a statement; raises the first error up to it."""
        if not self._is_asked_to_answer:
            self._pgconn.send_flush_request()
            self._is_asked_to_answer = True
        self._wait(self._communicate(wanted))

    def _close_part(self) -> None:
        """End a part: after an error, the server skips the statements up to here."""
        self._pgconn.pipeline_sync()
        self._sent.append(None)
        self._is_asked_to_answer = True

    def _communicate(self, wanted: Reply | None = None) -> Waiting:
        """Receive all answers, or those that have arrived when the wanted one has."""
        pgconn, sent = self._pgconn, self._sent
        while pgconn.flush():
            # Both, since the server could be waiting for its answers to be read.
            yield Wait.RW
            pgconn.consume_input()
        is_between = False
        """Whether the last statement is answered, and nothing of the next answer has arrived."""
        while sent:
            while pgconn.is_busy():
                if wanted is not None and wanted.result is not None:
                    return
                yield Wait.R
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                if is_between or pgconn.status == ConnStatus.BAD:
                    # The connection has ended, or after an interrupt this waited for an answer that
                    # had already come.
                    pgconn.finish()
                    raise psycopg.OperationalError("the connection is lost")
                is_between = True
                continue
            is_between = False
            reply = sent.popleft()
            if reply is not None:
                self._answered(reply, result)

    def _answered(self, reply: Reply, result: PGresult) -> None:
        status = result.status
        if status == ExecStatus.FATAL_ERROR or status == ExecStatus.PIPELINE_ABORTED:
            if reply.prepares is not None and self._prepared is not None:
                self._prepared.failed(reply.prepares)
            if status == ExecStatus.PIPELINE_ABORTED:
                raise psycopg.errors.PipelineAborted("an earlier statement failed")
            raise error_from_result(result, encoding="utf-8")
        reply.result = result
