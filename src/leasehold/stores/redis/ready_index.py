"""The order of pending jobs in Redis: see `leasehold.core.contract.accelerator.ReadyIndex`.

A lane has a sorted set of its first spots. All scores are 0, so the set is ordered by its members,
which Redis compares byte by byte: a spot is written so that this is the order of service. Nothing
is rounded, as it would be in a score.

A hash beside the set has the lane's *facts*: which set it is, and up to which spot it is complete.
A lane is filled into a new set, which then takes the place of the old one; spots whose jobs have
left without a word vanish with that. Every set also has an empty member: a set that was evicted or
overwritten lacks it, and so counts as unknown, like facts that have expired. What is no set and no
hash under these names is deleted.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import redis

from leasehold.core.contract.accelerator import VALID_SECONDS, LaneFront, Spot
from leasehold.core.rules.placing import RowKey
from leasehold.env import Env
from leasehold.stores.redis.link import Link

SENT_AT_ONCE: Final = 5_000
"""How many spots are sent in one command, which takes Redis some milliseconds."""
_SIGN: Final = 1 << 63
"""Added to a turn, which may be negative, so that its bytes are in its order."""
_WRITTEN: Final = struct.Struct(">QQQ")

_FIRST_BOUND: Final = b"("
"""Behind the empty member."""
_LAST_BOUND: Final = b"+"
_VALID_MILLIS: Final = VALID_SECONDS * 1000

# The set of a lane, if it is there and whole.
_FUNCTIONS: Final = """
    local function set_of(facts, name)
        local set = redis.pcall('HGET', facts, name)
        if type(set) == 'table' then redis.call('DEL', facts) return nil end
        if not set then return nil end
        local empty = redis.pcall('ZSCORE', set, '')
        if type(empty) == 'table' then redis.call('UNLINK', set) return nil end
        return empty and set or nil
    end
    local function add(set, spots)
        for first = 1, #spots, 24000 do
            local members = {}
            for at = first, math.min(#spots, first + 23999), 24 do
                members[#members + 1] = '0'
                members[#members + 1] = string.sub(spots, at, at + 23)
            end
            redis.call('ZADD', set, unpack(members))
        end
    end
"""
READ: Final = f"""
    {_FUNCTIONS}
    local answer = {{}}
    for n, facts in ipairs(KEYS) do
        local set = set_of(facts, 'set')
        answer[n] = 0
        if set then
            local spots = redis.call('ZRANGEBYLEX', set, ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
            local last = redis.call('ZRANGE', set, -1, -1)[1]
            local known = redis.call('ZCARD', set) - 1
            answer[n] = {{redis.call('HGET', facts, 'end') or '', last, known, spots}}
        end
    end
    return answer
"""
# For each lane the spots to add, and those to remove.
CHANGE: Final = f"""
    {_FUNCTIONS}
    for n, facts in ipairs(KEYS) do
        for _, name in ipairs({{'set', 'next'}}) do
            local set = set_of(facts, name)
            if set then
                add(set, ARGV[2 * n - 1])
                local left = ARGV[2 * n]
                for at = 1, #left, 24 do redis.call('ZREM', set, string.sub(left, at, at + 23)) end
                local last = name == 'set' and redis.call('HGET', facts, 'end') or ''
                if last ~= '' then redis.call('ZREMRANGEBYLEX', set, '(' .. last, '+') end
            end
        end
    end
    return 1
"""
LEFT: Final = "return redis.call('PTTL', KEYS[1])"
BEGIN: Final = f"""
    {_FUNCTIONS}
    set_of(KEYS[1], 'set')
    redis.call('ZADD', ARGV[1], 0, '')
    redis.call('HSET', KEYS[1], 'next', ARGV[1])
    for key, millis in pairs({{[ARGV[1]] = 2 * ARGV[2], [KEYS[1]] = ARGV[2]}}) do
        local left = redis.pcall('PTTL', key)
        local is_set = left
        if type(left) == 'number' and left < 0 then is_set = redis.pcall('PEXPIRE', key, millis) end
        if type(is_set) == 'table' then
            -- Nothing may stay for ever that nobody needs.
            redis.call('DEL', ARGV[1], KEYS[1])
            return redis.error_reply(is_set.err)
        end
    end
"""
ADD: Final = f"""
    {_FUNCTIONS}
    if redis.call('ZSCORE', KEYS[1], '') then add(KEYS[1], ARGV[1]) end
"""
# Unless somebody else has begun to fill the lane meanwhile.
END: Final = f"""
    {_FUNCTIONS}
    local set = set_of(KEYS[1], 'next')
    if set ~= ARGV[1] then redis.call('UNLINK', ARGV[1]) return 0 end
    local before = redis.call('HGET', KEYS[1], 'set')
    redis.call('HSET', KEYS[1], 'set', set, 'end', ARGV[2])
    redis.call('HDEL', KEYS[1], 'next')
    if ARGV[2] ~= '' then redis.call('ZREMRANGEBYLEX', set, '(' .. ARGV[2], '+') end
    redis.call('PEXPIRE', set, 2 * ARGV[3])
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    if before then redis.call('UNLINK', before) end
    return 1
"""
FORGET: Final = """
    for _, facts in ipairs(KEYS) do
        for _, name in ipairs({'set', 'next'}) do
            local set = redis.pcall('HGET', facts, name)
            if type(set) == 'string' then redis.call('UNLINK', set) end
        end
        redis.call('DEL', facts)
    end
"""


def written(spots: Iterable[Spot]) -> bytes:
    """Spots as members, one behind the other; their bytes have the order of the spots.

    >>> written([(1, -5, 3)]) < written([(1, 2, 1)]) < written([(2, -9, 0)])
    True
    """
    return b"".join(_WRITTEN.pack(tier, turn + _SIGN, seq) for tier, turn, seq in spots)


def spot_of(member: bytes) -> Spot:
    """The spot of a member; raises ValueError if it is none.

    >>> spot_of(written([(50_000, -5, 3)]))
    (50000, -5, 3)
    """
    if len(member) != _WRITTEN.size:
        raise ValueError(f"{len(member)} bytes are no spot")
    tier, turn, seq = _WRITTEN.unpack(member)
    if tier >= _SIGN or seq >= _SIGN:
        raise ValueError("numbers beyond all tiers and jobs")
    return tier, turn - _SIGN, seq


class RedisReadyIndex:
    """See `leasehold.core.contract.accelerator.ReadyIndex`; one process's side of it."""

    def __init__(self, link: Link, name: str, env: Env) -> None:
        """Names of different indexes differ."""
        self._link = link
        self._prefix = f"leasehold:{name}:"
        self._env = env
        self._scripts: dict[str, Any] = {}

    # -- reading -------------------------------------------------------------------------------

    def fronts(self, lanes: Sequence[int], limit: int) -> Mapping[int, LaneFront]:
        return self._read(lanes, _FIRST_BOUND, _LAST_BOUND, limit)

    def spots(self, lane: int, after: Spot, before: Spot | None, limit: int) -> LaneFront | None:
        last = _LAST_BOUND if before is None else b"(" + written([before])
        return self._read([lane], b"(" + written([after]), last, limit).get(lane)

    def _read(
        self, lanes: Sequence[int], first: bytes, last: bytes, limit: int
    ) -> dict[int, LaneFront]:
        if not lanes:
            return {}
        answers = self._ask(READ, lanes, [first, last, limit])
        found = {}
        for lane, answer in zip(lanes, answers or (), strict=False):
            front = _front_of(answer)
            if front is not None:
                found[lane] = front
        return found

    def age_seconds(self, lane: int) -> float | None:
        if not self.fronts([lane], 1):
            return None
        left = self._ask(LEFT, [lane], [])
        # It has more time left than it was given if the clock of Redis was set back.
        if left is None or not 0 < left <= _VALID_MILLIS:
            return None
        return float(VALID_SECONDS - left / 1000)

    # -- writing -------------------------------------------------------------------------------

    def change(self, entered: Sequence[RowKey], left: Sequence[RowKey]) -> bool:
        changes: defaultdict[int, tuple[list[Spot], list[Spot]]] = defaultdict(lambda: ([], []))
        for side, keys in enumerate((entered, left)):
            for lane, *spot in keys:
                changes[lane][side].append((spot[0], spot[1], spot[2]))
        values = [written(side) for sides in changes.values() for side in sides]
        return self._ask(CHANGE, list(changes), values) is not None

    def fill(self, lane: int, read: Callable[[], tuple[Sequence[Spot], bool]]) -> bool:
        name = f"{self._facts(lane)}:{self._env.new_secret()}"
        if not self._link.is_up:
            return False
        self._ask(BEGIN, [lane], [name, _VALID_MILLIS])
        # Who commits from now on, and is therefore not seen by `read`, adds to the new set, too.
        spots, are_all = read()
        for first in range(0, len(spots), SENT_AT_ONCE):
            members = written(spots[first : first + SENT_AT_ONCE])
            self._run(ADD, [name], [members])
        end = b"" if are_all or not spots else written([spots[-1]])
        return bool(self._ask(END, [lane], [name, end, _VALID_MILLIS]))

    def forget(self, lanes: Sequence[int]) -> None:
        self._ask(FORGET, lanes, [])

    def _facts(self, lane: int) -> str:
        return f"{self._prefix}{lane}"

    def _ask(self, script: str, lanes: Sequence[int], values: Sequence[Any]) -> Any:
        return self._run(script, [self._facts(lane) for lane in lanes], values)

    def _run(self, script: str, keys: Sequence[str], values: Sequence[Any]) -> Any:
        """The answer of a script; None if Redis is away, or refuses it."""

        def ask(client: redis.Redis) -> Any:
            if script not in self._scripts:
                self._scripts[script] = client.register_script(script)
            try:
                return self._scripts[script](keys=keys, args=values)
            except redis.ResponseError:
                # It is full, or may not do this. Whether it can do the rest, its probe finds out.
                return None

        return self._link.ask(ask) if keys else None


def _front_of(answer: Any) -> LaneFront | None:
    """What a script has said of a lane; None if it knows nothing, or says what cannot be."""
    try:
        end, last, known, members = answer
        limit = spot_of(end) if end else None
        spots = [spot_of(member) for member in members]
        if limit is not None:
            spots = [spot for spot in spots if spot <= limit]
        return LaneFront(spots, limit, None if end or not last else spot_of(last), int(known))
    except (TypeError, ValueError):
        return None
