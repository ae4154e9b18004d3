"""News between processes by pub/sub: sent by one thread, one message for all news meanwhile, and
heard by another.

They are hints: listeners of a process that cannot receive for a while are told to look twice a
second, and once more when it can receive again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from leasehold.stores.redis.address import TIMEOUT_SECONDS
from leasehold.stores.redis.link import PROBE_SECONDS, Link

logger = logging.getLogger("leasehold.store")

LOOK_SECONDS: Final = 0.5
"""How often listeners are told to look while no news can be received."""
CLOSE_WAIT_SECONDS: Final = 5.0


class News:
    """The news of one process."""

    def __init__(
        self,
        link: Link,
        channel: str,
        name: str,
        hear: Callable[[str | None], None],
        tell: Callable[[str], None],
    ) -> None:
        """`name` distinguishes this process's news from that of others."""
        self._link = link
        self._channel = channel
        self._name = name
        self._hear = hear
        self._tell = tell
        self._mutex = threading.Lock()
        self._unsent: set[str] = set()
        self._something_to_do = threading.Event()
        self._speaker: threading.Thread | None = None
        self._ears: threading.Thread | None = None
        self._is_listening = threading.Event()
        """Set after the first attempt to listen."""
        self._closed = threading.Event()

    # -- sending -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the thread that sends news and regularly probes Redis."""
        if self._speaker is None:
            with self._mutex:
                if self._speaker is None and not self._closed.is_set():
                    self._speaker = _started(self._speak, "leasehold-redis")

    def send(self, news: str) -> bool:
        """Send soon; False if Redis is away."""
        if not self._link.is_up or self._closed.is_set():
            return False
        with self._mutex:
            self._unsent.update(news)
        self._something_to_do.set()
        return True

    def _speak(self) -> None:
        while True:
            if not self._something_to_do.wait(PROBE_SECONDS):
                self._link.look()
                continue
            self._something_to_do.clear()
            with self._mutex:
                news, self._unsent = "".join(sorted(self._unsent)), set()
            if news and not self._publish(news):
                self._tell(news)
            if self._closed.is_set():
                return

    def _publish(self, news: str) -> bool:
        message = f"{self._name} {news}"
        heard_by = self._link.ask(lambda client: client.publish(self._channel, message))
        return heard_by is not None

    # -- hearing -------------------------------------------------------------------------------

    def listen(self) -> None:
        """Hear news of other processes from now on."""
        with self._mutex:
            if self._ears is None and not self._closed.is_set():
                self._ears = _started(self._listen, "leasehold-redis-ears")
        self._is_listening.wait(2 * TIMEOUT_SECONDS)

    def _listen(self) -> None:
        """Listen until closed; a process that cannot hear has missed something."""
        is_told = False
        while not self._closed.is_set():
            if self._link.is_up:
                try:
                    self._hear_until_lost()
                    is_told = False
                except Exception as error:  # noqa: BLE001  # also what redis-py did not foresee
                    # If Redis is away, the link logs it; otherwise this thread has to.
                    if self._link.look() and not is_told:
                        is_told = True
                        logger.warning("no notifications through Redis for now: %s", error)
            self._is_listening.set()
            if not self._closed.wait(LOOK_SECONDS):
                self._hear(None)

    def _hear_until_lost(self) -> None:
        client: Any = self._link.client  # redis-py has no types for this
        with client.pubsub() as ears:
            ears.subscribe(self._channel)
            while not self._closed.is_set() and self._link.is_up:
                message = ears.get_message(timeout=LOOK_SECONDS)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    # News may have been sent before.
                    self._hear(None)
                    self._is_listening.set()
                elif message["type"] == "message":
                    sender, _, news = bytes(message["data"]).decode(errors="replace").partition(" ")
                    if sender != self._name:
                        self._hear(news)

    def close(self) -> None:
        """Send the last news, and stop both threads."""
        with self._mutex:
            self._closed.set()
            threads = [each for each in (self._speaker, self._ears) if each is not None]
        self._something_to_do.set()
        if self._ears is not None:
            # The last message wakes this process's own listening thread, which then stops.
            self._publish("")
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(CLOSE_WAIT_SECONDS)


def _started(work: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
