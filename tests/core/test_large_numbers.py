"""Large numbers in a message, wherever they stand in it."""

from __future__ import annotations

from typing import Any

from leasehold.core.contract.large_numbers import decoder, encode_message


def test_numbers_cross_from_any_depth() -> None:
    deep: Any = {"x": (10**30, {"y": [-(10**30)]})}
    for _ in range(500):
        deep = [deep]
    found = decoder(Any).decode(encode_message({"deep": deep, "beside": 2**70}, repr))
    assert found["beside"] == 2**70
    inner = found["deep"]
    for _ in range(500):
        (inner,) = inner
    assert inner == {"x": [10**30, {"y": [-(10**30)]}]}
