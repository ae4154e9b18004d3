"""A seal: why a store accepts no writes. It was moved to another store, or is being filled."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.errors import StoreMovedError

Key = tuple[int | str, ...]


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """The mark of both stores of a move until it is complete, and of the source for good.

    >>> Seal(move="1", other="sqlite:///old.db", is_target=True).refusal("new.db").code
    'store_moved'
    """

    move: str
    """The id of the move, the same in both stores."""
    other: str
    """The other store's URL, without a password."""
    is_target: bool
    run: str = ""
    """The id of the run that copies. A run that continues a move sets a new id, so that every write
    of the run before it is refused.
    """
    is_complete: bool = False
    """For a source: whether all of it was found in the target, which replaces it."""
    table: str | None = None
    """For a target: the table that is being filled."""
    after: Key | None = None
    """The key of the last row copied into that table."""

    def refusal(self, shown: str) -> StoreMovedError:
        """The message to a process that writes to the store."""
        if self.is_target:
            return StoreMovedError(
                f"{shown} is being filled from {self.other}: run `queuectl migrate-store "
                f"{self.other} {shown}` again until it is done, then use this store"
            )
        if self.is_complete:
            return StoreMovedError(
                f"{shown} was moved to {self.other}, and accepts no more writes: change the URL of "
                "the store"
            )
        return StoreMovedError(
            f"{shown} is being moved to {self.other}, and accepts no writes: run `queuectl "
            f"migrate-store {shown} {self.other}` again until it is done and change the URL of "
            f"the store, or abandon the move with `queuectl migrate-store --reopen "
            f"{shown}`, after which this store accepts writes again"
        )

    def text(self) -> str:
        """The seal in its stored form."""
        return msgspec.json.encode(self).decode()


_decode: Final = msgspec.json.Decoder(Seal).decode


def seal_of(text: str | None) -> Seal | None:
    """The stored seal, if there is one."""
    return None if text is None else _decode(text)


def refusal_of(text: str | None, shown: str) -> str | None:
    """Why a store accepts no writes, for its `describe`; None if it accepts them."""
    seal = seal_of(text)
    return None if seal is None else str(seal.refusal(shown))


def check_unchanged(borne: Seal | None, found: Seal | None, shown: str) -> None:
    """Raise StoreMovedError, before a step of a move, unless the seal is the expected one."""
    if borne == found:
        return
    if borne is None:
        raise StoreMovedError(
            f"{shown} is no longer sealed: another `queuectl migrate-store` has completed this "
            "move, or abandoned it with --reopen. This one stops here"
        )
    raise StoreMovedError(
        f"another `queuectl migrate-store` is working on {shown}: this one stops here. Let that "
        f"one finish, or stop it and run this one again"
    )


def check_unsealed(text: str | None, shown: str) -> None:
    """Raise StoreMovedError, before a write, if there is a seal."""
    seal = seal_of(text)
    if seal is not None:
        raise seal.refusal(shown)
