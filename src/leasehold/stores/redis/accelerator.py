"""Redis as an accelerator: see `leasehold.core.contract.accelerator.Accelerator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import redis

from leasehold.core.contract.accelerator import TakenTokens
from leasehold.core.model.rate import Rate
from leasehold.env import SYSTEM, Env
from leasehold.stores.redis.address import parse
from leasehold.stores.redis.buckets import Buckets
from leasehold.stores.redis.link import Link
from leasehold.stores.redis.news import News
from leasehold.stores.redis.ready_index import RedisReadyIndex


class RedisAccelerator:
    """One process's side of Redis; nothing is connected before it is needed."""

    def __init__(self, url: str, *, env: Env = SYSTEM) -> None:
        self._address = parse(url)
        self._env = env
        self._inherited: list[object] = []
        """The parent's connections after a fork, kept so that garbage collection does not close
        them.
        """
        self._serve("", _nobody, _nobody)

    def serve(
        self, store_id: str, hear: Callable[[str | None], None], tell: Callable[[str], None]
    ) -> None:
        self._inherited.append((self._link, self._news))
        self._serve(store_id, hear, tell)

    def _serve(
        self, store_id: str, hear: Callable[[str | None], None], tell: Callable[[str], None]
    ) -> None:
        self._channels = f"leasehold:{store_id}"
        self._buckets = Buckets(store_id)
        self._link = Link(self._address, self._probe)
        self._store_id = store_id
        self._ready_index: tuple[int, RedisReadyIndex] | None = None
        channel = f"{self._channels}:news"
        self._news = News(self._link, channel, self._env.new_secret(), hear, tell)

    def _probe(self, client: redis.Redis) -> None:
        """Raise unless Redis can do everything that is needed of it."""
        self._buckets.probe(client)
        client.publish(f"{self._channels}:probe", "")

    @property
    def parameter(self) -> str:
        return f"redis={quote(self._address.url, safe='')}"

    def ready_index(self, era: int) -> RedisReadyIndex:
        if self._ready_index is None or self._ready_index[0] != era:
            index = RedisReadyIndex(self._link, f"{self._store_id}:ready:{era}", self._env)
            self._ready_index = era, index
        return self._ready_index[1]

    @property
    def is_up(self) -> bool:
        self._news.begin()
        return self._link.is_up

    def listen(self) -> None:
        self._news.begin()
        self._news.listen()

    def send(self, news: str) -> bool:
        return self.is_up and self._news.send(news)

    def take(
        self, bucket: tuple[str, str], rate: Rate, jobs: int, *, least: int, now: int
    ) -> TakenTokens | None:
        self._news.begin()
        return self._link.ask(
            lambda client: self._buckets.take(client, bucket, rate, least, jobs, now)
        )

    def correct(self, bucket: tuple[str, str], rate: Rate, jobs: int, *, now: int) -> None:
        self._link.ask(
            lambda client: self._buckets.take(
                client, bucket, rate, jobs, jobs, now, is_correction=True
            )
        )

    def describe(self) -> Mapping[str, Any]:
        self._link.look()
        known: dict[str, Any] = {
            "path": self._address.shown,
            "is_up": self._link.is_up,
            "problem": self._link.problem,
        }
        info: Any = self._link.ask(lambda client: client.info())
        if info is not None:
            known["server_version"] = info.get("valkey_version", info.get("redis_version"))
            known["used_bytes"] = info.get("used_memory")
            known["max_bytes"] = info.get("maxmemory") or None
            known["eviction"] = info.get("maxmemory_policy")
            known["evicted_keys"] = info.get("evicted_keys", 0)
        return {"redis": known}

    def close(self) -> None:
        self._news.close()
        self._link.close()


def _nobody(_: str | None) -> None:
    """Ignores news before there is a store."""
