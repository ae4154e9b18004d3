"""MessagePack with numbers of any size: JSON allows them, MessagePack stops at 64 bits.

A task may report any JSON document as its progress or its note. One large number in it must not
make the whole answer unreadable.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

_LARGE: Final = 1
"""MessagePack's extension type of a number that is sent as its decimal digits."""
_FIRST, _LAST = -(2**63), 2**64 - 1


def encode_message(value: Any, as_data: Callable[[Any], Any]) -> bytes:
    """Encode a message; `as_data` converts values that msgspec does not know.

    >>> decoder(list[Any]).decode(encode_message([1, -(10**30)], repr))
    [1, -1000000000000000000000000000000]
    """
    try:
        return msgspec.msgpack.encode(value, enc_hook=as_data)
    except OverflowError:
        plain = msgspec.to_builtins(value, builtin_types=(bytes, datetime), enc_hook=as_data)
        return msgspec.msgpack.encode(_without_large(plain))


def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """A decoder for values of this type encoded by `encode_message`."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_number)


def _without_large(plain: Any) -> Any:
    """The same data with large numbers as extensions. It does not recurse: data may be nested
    deeply.
    """
    whole = [plain]
    left: list[Any] = [whole]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            entries = [(_as_sent(key), _as_sent(value)) for key, value in part.items()]
            part.clear()
            part.update(entries)
            left += [value for _, value in entries if isinstance(value, dict | list)]
        else:
            part[:] = map(_as_sent, part)
            left += [value for value in part if isinstance(value, dict | list)]
    return whole[0]


def _as_sent(value: Any) -> Any:
    if isinstance(value, int) and not _FIRST <= value <= _LAST:
        return msgspec.msgpack.Ext(_LARGE, b"%d" % value)
    return list(value) if isinstance(value, tuple) else value


def _number(code: int, data: memoryview) -> int:
    if code != _LARGE:
        raise ValueError(f"an extension type {code} is not part of the contract")
    return int(bytes(data))
