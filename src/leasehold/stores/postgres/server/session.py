"""A process's connections beside its transactions: for news, and for proof that its workers live.

*News* is sent by NOTIFY. That takes a server-wide lock until its transaction is durable, so it is
never part of a transaction that has to be durable: it is sent right behind the COMMIT, in the same
piece, and costs neither a round trip nor a sync of its own. A process that has just sent news lets
a thread send the next, one message for all commits meanwhile. News is only a hint, and a slow poll
makes up for a lost one.

*Lives*: each worker holds an advisory lock on a connection that lasts as long as its process. The
server frees it when that connection ends. That alone proves nothing, since a connection may be cut
while the worker lives: the lock is then taken again within a second. Only a lock that stays free
for DEAD_SECONDS, on a server that was up all the time, proves a death. A host that is cut off
cannot take it again, so the server is told to keep its silent connection for CUT_OFF_SECONDS.

Behind a pooler (`connection`) no connection lasts: listeners are told to look now and then, and no
death can be proved; leases expire instead.

An accelerator, if there is one, carries the news while it can. The process still listens for
NOTIFY, which other processes that cannot reach the accelerator use, and applications' own
transactions.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import psycopg

from leasehold.core.contract.accelerator import Accelerator
from leasehold.core.model.lives import NO_LIFE
from leasehold.core.model.records import Listener
from leasehold.env import Env
from leasehold.errors import StoreClosedError
from leasehold.interrupts import SHIELD
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.clock import SERVER_MICROS
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.server.pulse import connect
from leasehold.stores.postgres.server.reach import Reach
from leasehold.stores.postgres.server.silence import CONNECT_TIMEOUT_SECONDS
from leasehold.stores.tables.news import ANYTHING, MISPLACED, news_of, tell
from leasehold.stores.tables.step import Hints

logger = logging.getLogger("leasehold.store")

Statement = tuple[str, Sequence[Any]]

LOOK_SECONDS: Final = 0.5
"""How often a process checks that it still holds the locks of its workers."""
RECONNECT_SECONDS: Final = 1.0
FAILURES_TOLD: Final = 3
"""How many failures in a row are worth a log line: a cut connection is usually just reopened."""
POLL_SECONDS: Final = 0.5
"""How often listeners are told to look when there is no news, behind a pooler."""
NEWS_GAP_SECONDS: Final = 0.002
"""How long a process that has sent news gathers more before sending it as one message. Each message
costs some 0.2 ms of processor time, here and at the server; and a worker that serves a stream of
jobs lets a few milliseconds pass between two exchanges anyway (`worker.pace`).
"""
CLOSE_WAIT_SECONDS: Final = 5.0
CUT_OFF_SECONDS: Final = 2 * 60 * 60
"""How long the server keeps a silent connection, whatever its own settings: a host that was cut off
has not died, and its leases end in their own time. This is the default of Linux. It is not longer,
since the connection of a host that lost power lasts as long.
"""

NOTIFY: Final = "SELECT pg_notify('leasehold_' || $1, $2)"
NEW_LIFE: Final = "SELECT nextval('life_number')"
# Shared, since a connection that was cut off may still hold it until the server notices.
HOLD: Final = "SELECT pg_try_advisory_lock_shared(hashtext('leasehold life ' || $1), $2::integer)"
BEAR_SILENCE: Final = """
    SELECT set_config('tcp_keepalives_idle', $1, false),
        set_config('tcp_user_timeout', $2, false)
"""
# One row at a time: who waits for a row here keeps nobody else waiting.
HELD_AGAIN: Final = f"UPDATE worker SET held_since = {SERVER_MICROS} WHERE life = $1"
LET_GO: Final = "SELECT pg_advisory_unlock_shared(hashtext('leasehold life ' || $1), $2::integer)"


class _NewsLine:
    """Whether news gets through, on a reachable server; only a change is logged."""

    def __init__(self, way: str, reach: Reach) -> None:
        self._way = way
        self._reach = reach
        self._failures = 0

    def is_cut(self, error: psycopg.Error) -> None:
        if self._reach.is_away:
            return  # The log has it.
        self._failures += 1
        if self._failures == FAILURES_TOLD:
            said = " ".join(str(error).split())
            logger.warning(
                "notifications %s other processes are interrupted; polling until they resume (%s)",
                self._way,
                said,
            )

    def is_free(self) -> None:
        if self._failures >= FAILURES_TOLD:
            logger.info("notifications %s other processes have resumed", self._way)
        self._failures = 0


def _nobody() -> None:
    """Hears of nothing."""


class ServerSession:
    """The connections of one process that outlast its transactions; opened when first needed."""

    def __init__(
        self,
        address: Address,
        env: Env,
        reach: Reach,
        accelerator: Accelerator | None = None,
        on_misplaced: Callable[[], None] = _nobody,
    ) -> None:
        """`on_misplaced` is called with the news MISPLACED."""
        self._address = address
        self._on_misplaced = on_misplaced
        self._reach = reach
        self._accelerator = accelerator
        self._name = env.new_secret()
        """Distinguishes this process's news from that of others."""
        self._listeners: list[Listener] = []
        self._line = threading.Lock()
        """Held while the connection is used. A commit never waits for it, since a NOTIFY may take
        the server a while. If both are taken, it comes before `_mutex`.
        """
        self._mutex = threading.Lock()
        self._something_to_do = threading.Condition(self._mutex)
        self._news: set[str] = set()
        self._clock = env.clock
        self._had_news_at = float("-inf")
        self._lives: set[int] = set()
        self._connection: SqlConnection | None = None
        self._speaker: threading.Thread | None = None
        self._ears: threading.Thread | None = None
        self._listening = threading.Event()
        """Set after the first attempt to listen."""
        self._hearing = _NewsLine("from", reach)
        self._speaking = _NewsLine("to", reach)
        self._closed = False
        self._is_over = threading.Event()
        """Set with `_closed`, for threads that wait for nothing else."""

    def serve(self, store_id: str) -> None:
        """Called when the store is open, with its id."""
        if self._accelerator is not None:
            self._accelerator.serve(store_id, self.hear, self.notify)

    # -- news --------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call this listener from now on; the returned function ends that."""
        with self._mutex:
            if self._closed:
                raise StoreClosedError("the store is closed: there is nothing left to listen to")
            self._listeners = [*self._listeners, listener]
            if self._ears is None:
                with SHIELD:  # `close` joins the thread, which must have been started.
                    self._ears = threading.Thread(
                        target=self._hear, name="leasehold-ears", daemon=True
                    )
                    self._ears.start()
        # Every later commit is heard, or reported once the connection works again.
        self._listening.wait(CONNECT_TIMEOUT_SECONDS)
        if self._accelerator is not None:
            self._accelerator.listen()

        def end() -> None:
            with self._mutex:
                self._listeners = [other for other in self._listeners if other is not listener]

        return end

    def behind_commit(self, hints: Hints) -> Statement | None:
        """The statement that tells other processes of a commit, if it should be sent right behind
        the COMMIT. Once it is carried out, its news must not be sent again.
        """
        news = news_of(hints)
        if not news or self._accelerator is not None:
            return None
        news += MISPLACED if hints.entered else ""
        with self._mutex:
            now = self._clock.monotonic()
            is_alone = now - self._had_news_at >= NEWS_GAP_SECONDS
            self._had_news_at = now
        return (NOTIFY, (self._address.schema, f"{self._name} {news}")) if is_alone else None

    def send(self, hints: Hints, *, are_told: bool = False, is_misplaced: bool = False) -> None:
        """Tell listeners here of a commit, and other processes too unless they already know.

        `is_misplaced` means that the accelerator does not know of its pending jobs.
        """
        news = news_of(hints)
        if is_misplaced:
            self._on_misplaced()
            news += MISPLACED
        tell(self._listeners, news, hints.ended, hints.cancel_requested)
        if are_told:
            return
        if self._accelerator is None or not self._accelerator.send(news):
            self.notify(news)

    def notify(self, news: Collection[str]) -> None:
        """Have other processes told by NOTIFY."""
        with self._mutex:
            if self._closed:
                return
            self._news.update(news)
            self._had_news_at = self._clock.monotonic()
            self._speak()

    def hear(self, news: str | None) -> None:
        """Pass another process's news to listeners here, or tell them that they may have missed
        some.
        """
        if news is not None and MISPLACED in news:
            self._on_misplaced()
        tell(self._listeners, ANYTHING if news is None else news)

    def _hear(self) -> None:
        """Listen to other processes until closed; a listener that was cut off has missed news."""
        channel = f"leasehold_{self._address.schema}"
        while not self._closed:
            try:
                with connect(self._address, "leasehold ears", self._reach) as raw:
                    if raw.is_pooled:
                        break
                    raw.execute(f"LISTEN {channel}".encode())
                    raw.patience_seconds = math.inf  # News may be a long time coming.
                    if self._listening.is_set():
                        tell(self._listeners, ANYTHING)
                    self._listening.set()
                    self._hearing.is_free()
                    for notice in raw.notifies():
                        if self._closed:
                            return
                        sender, _, news = notice.payload.partition(" ")
                        if sender != self._name:
                            self.hear(news)
            except psycopg.Error as error:
                self._listening.set()
                if not self._closed:
                    self._hearing.is_cut(error)
                    self._pause(RECONNECT_SECONDS)
        self._listening.set()
        while not self._closed:
            self._pause(POLL_SECONDS)
            tell(self._listeners, ANYTHING)

    def _pause(self, seconds: float) -> None:
        with self._mutex:
            self._something_to_do.wait_for(lambda: self._closed, seconds)

    # -- lives -------------------------------------------------------------------------------

    def begin_life(self) -> int:
        """Hold the lock of a worker's new life from now on; raises psycopg's errors."""
        with self._line:
            while True:
                was_open = self._connection is not None
                try:
                    return self._begin_life()
                except psycopg.Error:
                    self._drop()
                    # One that was cut off while nobody used it says nothing about the server.
                    if not was_open:
                        raise

    def _begin_life(self) -> int:
        db = self._open()
        if db.raw.is_pooled:
            return NO_LIFE
        row: Any = db.execute(NEW_LIFE).fetchone()
        life: int = row[0]
        db.raw.proves_life = True
        db.execute(HOLD, (self._address.schema, life))
        with self._mutex:
            self._lives.add(life)
            self._speak()
        return life

    def let_go(self, life: int) -> None:
        """Release the lock of a life that has ended."""
        with self._line, contextlib.suppress(psycopg.Error):
            with self._mutex:
                self._lives.discard(life)
            if self._connection is not None and life != NO_LIFE:
                self._connection.execute(LET_GO, (self._address.schema, life))

    def fileno(self) -> int | None:
        """The socket on which the locks are held, if there is one."""
        with self._line, contextlib.suppress(psycopg.Error):  # It may have been cut off.
            db = self._connection
            if db is not None and not db.raw.is_pooled:
                return db.raw.fileno()
        return None

    # -- the thread that speaks --------------------------------------------------------------

    def _speak(self) -> None:
        if self._speaker is None:
            self._speaker = threading.Thread(target=self._work, name="leasehold-news", daemon=True)
            self._speaker.start()
        self._something_to_do.notify_all()

    def _work(self) -> None:
        """Send pending news, and make sure that the locks of this process's workers are held."""
        is_cut_off = False
        while True:
            with self._mutex:
                if not is_cut_off:
                    self._something_to_do.wait_for(
                        lambda: bool(self._news) or self._closed,
                        LOOK_SECONDS if self._lives else None,
                    )
                news, self._news = self._news, set()
                is_over = self._closed
            was_cut_off = is_cut_off
            with self._line:
                try:
                    self._say("".join(sorted(news)))
                    self._speaking.is_free()
                except psycopg.Error as error:
                    self._drop()
                    self._speaking.is_cut(error)
                is_cut_off = self._connection is None
            if is_over:
                return
            if is_cut_off:
                with self._mutex:
                    self._news.update(news)
                # Usually only the connection was cut, and each moment counts until another one has
                # the locks.
                if was_cut_off:
                    self._pause(LOOK_SECONDS)
            elif news:
                self._is_over.wait(NEWS_GAP_SECONDS)

    def _say(self, news: str) -> None:
        db = self._open()
        # Even without news: an answer shows that the connection works.
        db.execute(NOTIFY, (self._address.schema, f"{self._name} {news}"))

    def _open(self) -> SqlConnection:
        """The connection; a new one holds the locks of all lives before anybody uses it."""
        if self._connection is None:
            db = SqlConnection(connect(self._address, "leasehold session", self._reach))
            try:
                self._hold_lives(db)
            except BaseException:
                db.raw.close()
                raise
            self._connection = db
        return self._connection

    def _drop(self) -> None:
        """Give the connection up: the next one who needs it opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.raw.close()

    def _hold_lives(self, db: SqlConnection) -> None:
        if not db.raw.is_pooled:
            seconds = CUT_OFF_SECONDS
            db.execute(BEAR_SILENCE, (str(seconds), str(seconds * 1000)))
        with self._mutex:
            lives = list(self._lives)
        db.raw.proves_life = bool(lives)
        for life in lives:
            db.execute(HOLD, (self._address.schema, life))
        for life in lives:
            # Only now, so that nobody sees this one, and the lock still free.
            db.execute(HELD_AGAIN, (life,))

    def close(self) -> None:
        """Stop both threads and close their connections."""
        # This comes first, since news that it can no longer send is sent here.
        if self._accelerator is not None:
            self._accelerator.close()
        with self._mutex:
            self._closed = True
            self._is_over.set()
            self._listeners = []
            self._something_to_do.notify_all()
            threads = [each for each in (self._speaker, self._ears) if each is not None]
        if self._ears is not None:
            # The last message also wakes this process's own listening thread, which then stops.
            with self._line, contextlib.suppress(psycopg.Error):
                self._say("")
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(CLOSE_WAIT_SECONDS)
        with self._line:
            self._drop()
