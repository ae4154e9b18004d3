"""The order of pending jobs in Redis: what it answers, whatever is done to its keys."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.contract.accelerator import VALID_SECONDS, LaneFront, Spot
from leasehold.env import SYSTEM
from support.redis_servers import RedisServer, needs_redis, redis_server

needs_redis()

import redis  # noqa: E402

from leasehold.stores.redis import RedisAccelerator, address, ready_index  # noqa: E402
from leasehold.stores.redis.link import Link  # noqa: E402
from leasehold.stores.redis.ready_index import RedisReadyIndex, spot_of, written  # noqa: E402

NUMBERS = st.integers(0, (1 << 63) - 1)
SPOTS = st.tuples(NUMBERS, st.integers(-(1 << 63), (1 << 63) - 1), NUMBERS)
LANE, OTHER = 7, 8


@pytest.fixture(scope="module")
def module_server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
def server(module_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    monkeypatch.setattr(address, "TIMEOUT_SECONDS", 20.0)
    module_server.command("FLUSHALL")
    return module_server


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def index(server: RedisServer) -> Iterator[RedisReadyIndex]:
    yield from opened(server)


@pytest.fixture
def another(server: RedisServer) -> Iterator[RedisReadyIndex]:
    """That of another process."""
    yield from opened(server)


def opened(server: RedisServer) -> Iterator[RedisReadyIndex]:
    link = Link(address.parse(server.url), lambda client: client.ping())
    yield RedisReadyIndex(link, "store", SYSTEM)
    link.close()


def spots(*turns: int) -> list[Spot]:
    return [(50_000, turn, turn) for turn in turns]


def keys(*turns: int, lane: int = LANE) -> list[tuple[int, int, int, int]]:
    return [(lane, *spot) for spot in spots(*turns)]


def filled(index: RedisReadyIndex, found: Sequence[Spot], *, are_all: bool = True) -> None:
    assert index.fill(LANE, lambda: (found, are_all))


def front(index: RedisReadyIndex, limit: int = 100) -> LaneFront | None:
    return index.fronts([LANE], limit).get(LANE)


def known(index: RedisReadyIndex) -> list[Spot] | None:
    found = front(index)
    return None if found is None else list(found.spots)


@given(st.lists(SPOTS))
def test_what_is_written_has_the_order_of_the_spots(given: list[Spot]) -> None:
    members = [written([spot]) for spot in given]
    assert [spot_of(member) for member in members] == given
    assert [spot_of(member) for member in sorted(members)] == sorted(given)


def test_a_lane_is_unknown_until_it_is_filled(index: RedisReadyIndex) -> None:
    index.change(keys(1, 2), keys(3))
    assert front(index) is None
    assert index.spots(LANE, (0, 0, 0), None, 10) is None
    assert index.age_seconds(LANE) is None
    filled(index, spots(2, 1))
    assert known(index) == spots(1, 2)
    age = index.age_seconds(LANE)
    assert age is not None
    assert 0 <= age < VALID_SECONDS


def test_an_empty_lane_is_known_too(index: RedisReadyIndex) -> None:
    filled(index, [])
    assert front(index) == LaneFront([], None, None, 0)
    index.change(keys(5), [])
    assert front(index) == LaneFront(spots(5), None, spots(5)[0], 1)


def test_spots_come_by_tier_turn_and_number(index: RedisReadyIndex) -> None:
    mixed = [(2, -5, 1), (1, 9, 2), (2, -7, 9), (1, 9, 1), (1 << 41, -1, 3), (0, 0, 4)]
    filled(index, mixed)
    assert known(index) == sorted(mixed)
    found = front(index, 2)
    assert found == LaneFront(sorted(mixed)[:2], None, max(mixed), 6)
    next_two = index.spots(LANE, (1, 9, 1), None, 2)
    assert next_two is not None
    assert next_two.spots == [(1, 9, 2), (2, -7, 9)]
    of_a_tier = index.spots(LANE, (2, -(1 << 62), 0), (3, -(1 << 62), 0), 10)
    assert of_a_tier is not None
    assert of_a_tier.spots == [(2, -7, 9), (2, -5, 1)]


def test_a_lane_that_is_not_known_to_its_end_says_so(index: RedisReadyIndex) -> None:
    filled(index, spots(1, 3, 5), are_all=False)
    assert front(index) == LaneFront(spots(1, 3, 5), spots(5)[0], None, 3)
    index.change([*keys(2, 4, 6, 7)], [])
    assert front(index) == LaneFront(spots(1, 2, 3, 4, 5), spots(5)[0], None, 5)
    index.change([], keys(1, 2, 3, 4, 5))
    assert front(index) == LaneFront([], spots(5)[0], None, 0)


def test_changes_of_several_lanes_are_told_apart(index: RedisReadyIndex) -> None:
    filled(index, spots(1))
    assert index.fill(OTHER, lambda: (spots(2), True))
    index.change([*keys(3), *keys(4, lane=OTHER)], [*keys(1), *keys(2, lane=OTHER)])
    fronts = index.fronts([LANE, OTHER, 99], 10)
    assert {lane: each.spots for lane, each in fronts.items()} == {LANE: spots(3), OTHER: spots(4)}


def test_many_spots_are_sent_in_parts(
    index: RedisReadyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_index, "SENT_AT_ONCE", 1500)
    many = spots(*range(3700))
    filled(index, many)
    found = front(index, 5000)
    assert found is not None
    assert found.spots == many
    index.change(keys(*range(5000, 8000)), keys(*range(2500)))
    found = front(index, 5000)
    assert found is not None
    assert found.spots == spots(*range(2500, 3700), *range(5000, 8000))


def test_what_changes_while_a_lane_is_filled_is_kept(
    index: RedisReadyIndex, another: RedisReadyIndex
) -> None:
    filled(index, spots(1, 2, 3))

    def read() -> tuple[list[Spot], bool]:
        another.change(keys(9), keys(1))
        assert known(another) == spots(2, 3, 9)
        # As it was before that: of the jobs that have left, the store says that they have.
        return spots(1, 2, 3), True

    assert index.fill(LANE, read)
    assert known(index) == spots(1, 2, 3, 9)


def test_the_last_to_begin_fills_it(index: RedisReadyIndex, another: RedisReadyIndex) -> None:
    def read() -> tuple[list[Spot], bool]:
        assert another.fill(LANE, lambda: (spots(5), True))
        return spots(1), True

    assert not index.fill(LANE, read)
    assert known(index) == spots(5)


def test_nothing_is_left_of_it(index: RedisReadyIndex, client: redis.Redis) -> None:
    for _ in range(3):
        filled(index, spots(1, 2))
    assert len([*client.scan_iter()]) == 2
    assert all(client.pttl(key) > 0 for key in client.scan_iter())
    index.forget([LANE, OTHER])
    assert [*client.scan_iter()] == []
    assert front(index) is None


def test_a_reader_that_failed_leaves_the_lane_as_it_was(
    index: RedisReadyIndex, client: redis.Redis
) -> None:
    filled(index, spots(1))

    def fail() -> tuple[list[Spot], bool]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        index.fill(LANE, fail)
    assert known(index) == spots(1)
    filled(index, spots(2))
    assert known(index) == spots(2)
    assert all(client.pttl(key) > 0 for key in client.scan_iter())


def test_facts_that_have_expired_are_unknown(index: RedisReadyIndex, client: redis.Redis) -> None:
    filled(index, spots(1))
    [facts] = [key for key in client.scan_iter() if client.type(key) == b"hash"]
    client.delete(facts)
    assert front(index) is None
    assert index.age_seconds(LANE) is None
    index.change(keys(2), [])
    assert front(index) is None


def test_a_clock_that_is_set_back_makes_nothing_last_longer(
    index: RedisReadyIndex, client: redis.Redis
) -> None:
    filled(index, spots(1))
    for key in list(client.scan_iter()):
        client.pexpire(key, client.pttl(key) + 3_600_000)
    assert index.age_seconds(LANE) is None
    filled(index, spots(2))
    assert index.age_seconds(LANE) is not None


@pytest.mark.parametrize(
    "command", ["pexpire", "pttl", "hset", "zadd", "hdel", "unlink", "zremrangebylex", "zscore"]
)
def test_nothing_stays_for_ever_where_a_command_is_refused(
    index: RedisReadyIndex, server: RedisServer, client: redis.Redis, command: str
) -> None:
    server.command("ACL", "SETUSER", "default", f"-{command}")
    try:
        for number in range(3):
            index.fill(LANE, lambda: (spots(*range(9)), False))
            index.change(keys(number), keys(5))
        assert index._link.is_up
    finally:
        server.command("ACL", "SETUSER", "default", f"+{command}")
    assert all(client.pttl(key) > 0 for key in client.scan_iter())
    filled(index, spots(4))
    assert known(index) == spots(4)


def test_another_era_knows_nothing(server: RedisServer) -> None:
    accelerator = RedisAccelerator(server.url)
    accelerator.serve("store", lambda _: None, lambda _: None)
    first, second = accelerator.ready_index(1), accelerator.ready_index(2)
    filled(first, spots(1))
    assert front(second) is None
    filled(second, spots(2))
    assert known(accelerator.ready_index(1)) == spots(1)
    accelerator.close()


def spoil_set(client: redis.Redis, write: Callable[[bytes], object]) -> None:
    for key in list(client.scan_iter()):
        if client.type(key) == b"zset":
            client.delete(key)
            write(key)


def spoil_facts(client: redis.Redis, write: Callable[[bytes], object]) -> None:
    for key in list(client.scan_iter()):
        if client.type(key) == b"hash":
            client.delete(key)
            write(key)


GARBAGE: dict[str, Callable[[redis.Redis, bytes], object]] = {
    "gone": lambda _, __: None,
    "text": lambda client, key: client.set(key, "garbage"),
    "list": lambda client, key: client.lpush(key, "a", "b"),
    "set": lambda client, key: client.sadd(key, "a", ""),
    "hash": lambda client, key: client.hset(key, "set", "nothing"),
    "hash of itself": lambda client, key: client.hset(key, mapping={"set": key, "next": key}),
    "another order": lambda client, key: client.zadd(key, {"a": 1}),
    "odd members": lambda client, key: client.zadd(key, {b"": 0, b"a": 0, b"\xff" * 24: 0}),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("spoil", [spoil_set, spoil_facts], ids=["set", "facts"])
def test_garbage_is_unknown_until_the_lane_is_filled_again(
    index: RedisReadyIndex,
    client: redis.Redis,
    garbage: Callable[[redis.Redis, bytes], object],
    spoil: Callable[[redis.Redis, Callable[[bytes], object]], None],
) -> None:
    filled(index, spots(1, 2))
    spoil(client, lambda key: garbage(client, key))
    assert front(index) is None
    assert index.age_seconds(LANE) is None
    index.change(keys(3), keys(1))
    assert front(index) is None
    filled(index, spots(4))
    assert known(index) == spots(4)


@pytest.mark.parametrize("end", [b"a", b"\xff" * 24, b"x" * 30])
def test_an_impossible_end_is_unknown(
    index: RedisReadyIndex, client: redis.Redis, end: bytes
) -> None:
    filled(index, spots(1, 2))
    [facts] = [key for key in client.scan_iter() if client.type(key) == b"hash"]
    client.hset(facts, "end", end)
    assert front(index) is None


def test_a_full_server_knows_nothing_and_is_not_taken_for_one_that_is_away(
    index: RedisReadyIndex, server: RedisServer
) -> None:
    filled(index, spots(1))
    server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        assert not index.fill(LANE, lambda: (spots(2), True))
        index.change(keys(3), [])
        assert index._link.is_up
    finally:
        server.command("CONFIG", "SET", "maxmemory", "0")
    filled(index, spots(4))
    assert known(index) == spots(4)


def test_a_server_that_is_away_knows_nothing(index: RedisReadyIndex, server: RedisServer) -> None:
    filled(index, spots(1))
    server.kill()
    try:
        assert front(index) is None
        assert index.age_seconds(LANE) is None
        index.change(keys(2), keys(1))
        index.forget([LANE])
        reads = itertools.count()
        assert not index.fill(LANE, lambda: (spots(next(reads)), True))
        assert next(reads) == 0
    finally:
        server.start()
