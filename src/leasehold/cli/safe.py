"""Text and JSON that others wrote, made safe to show in a terminal."""

from __future__ import annotations

from leasehold.core.model.safe_text import ASCII_PRINTABLE, LENGTH_MAX, is_unsafe, safe

__all__ = ["LENGTH_MAX", "safe", "safe_json"]


def safe_json(text: str) -> str:
    r"""JSON text with everything unprintable escaped: the same document, but harmless to look at.

    >>> safe_json('"\u202eback"')
    '"\\u202eback"'
    """
    if ASCII_PRINTABLE.match(text):
        return text
    return "".join(
        _json_escape(char) if is_unsafe(char) and char != "\n" else char for char in text
    )


def _json_escape(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[i]:02x}{data[i + 1]:02x}" for i in range(0, len(data), 2))
