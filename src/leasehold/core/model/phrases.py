"""Phrases in messages for people: counts with their nouns, and lists as English writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal


def counted(count: float, noun: str) -> str:
    """A count with its noun, in the plural if needed.

    >>> counted(1, "job"), counted(1200, "job"), counted(0.5, "running job")
    ('1 job', '1,200 jobs', '0.5 running jobs')
    """
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}{'' if count == 1 else 's'}"


def did_you_mean(name: str, known: Iterable[str], nearness: float = 0.6) -> str:
    """A question to append after a refused name, if a known one is similar.

    >>> did_you_mean("dealy", ["delay", "queue"]), did_you_mean("colour", ["delay", "queue"])
    (": did you mean 'delay'?", '')
    >>> did_you_mean("timeout", ["queue", "timeout_seconds"])
    ": did you mean 'timeout_seconds'?"
    """
    known = list(known)
    longer = sorted(each for each in known if each.startswith(f"{name}_"))
    if name and longer:
        return f": did you mean {listed(map(repr, longer), 'or')}?"
    from difflib import get_close_matches  # Only for a refused name: it is slow to import.

    near = get_close_matches(name, known, n=1, cutoff=nearness)
    return f": did you mean {near[0]!r}?" if near else ""


def listed(names: Iterable[str], last: Literal["and", "or"] = "and") -> str:
    """A list in a sentence.

    >>> listed(["mail"]), listed(["mail", "print"], "or"), listed("abc")
    ('mail', 'mail or print', 'a, b and c')
    """
    *others, final = names = list(names) or [""]
    return f"{', '.join(others)} {last} {final}" if others else final


def first_of(names: Sequence[str], most: int = 3) -> str:
    """The first of a list that may be too long for a sentence, and how many others there are.

    >>> first_of("abc"), first_of("abcd"), first_of([str(n) for n in range(10_000)])
    ('a, b and c', 'a, b, c and 1 other', '0, 1, 2 and 9,997 others')
    """
    others = len(names) - most
    return listed([*names[:most], counted(others, "other")] if others > 0 else names)
