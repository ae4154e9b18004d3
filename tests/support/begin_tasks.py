"""Tasks that leave a file behind once they have begun."""

from __future__ import annotations

from pathlib import Path


def touch(path: str) -> None:
    Path(path).touch()


async def touch_async(path: str) -> None:
    Path(path).touch()  # noqa: ASYNC240 - it takes no time
