"""The columns of a table that fit a terminal, and their widths."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

GAP: Final = 3
"""Blanks between two columns."""
CUT_WIDTH_MIN: Final = 8
WRAP_WIDTH_MIN: Final = 20

Fit = Literal["wrap", "cut", "middle", "keep", "id"]
"""On a narrow terminal texts take several lines, are cut at their end or in their middle, or stay
whole; ids show their ends."""
ELLIPSIS: Final = "…"
TAIL_LENGTH: Final = 8
ID_LENGTH_MAX: Final = 20
"""Ids up to this length are always shown whole: people have chosen them to be readable."""


class Breadth(NamedTuple):
    """How wide a column would like to be, and how it can do with less."""

    natural: int
    heading: int
    fit: Fit
    spare: int
    """Not 0 if it may be left out; the highest goes first."""

    @property
    def least(self) -> int:
        """The width below which it is of no use."""
        if self.fit in ("keep", "id"):
            return self.natural
        useful = WRAP_WIDTH_MIN if self.fit == "wrap" else CUT_WIDTH_MIN
        return min(self.natural, max(self.heading, useful))


def laid_out(columns: Sequence[Breadth], room: int) -> dict[int, int]:
    """The places of the columns that are shown, and their widths.

    Optional columns are left out where there is no room; then the widest texts are narrowed. A
    table of which nothing more can be spared may still be too wide.

    >>> wanted = [Breadth(36, 2, "keep", 0), Breadth(40, 5, "cut", 0), Breadth(4, 3, "keep", 1)]
    >>> laid_out(wanted, 80)
    {0: 36, 1: 34, 2: 4}
    >>> laid_out(wanted, 50)
    {0: 36, 1: 11}
    """
    chosen = dict(enumerate(columns))
    while _total([each.least for each in chosen.values()]) > room:
        spare = [place for place, each in chosen.items() if each.spare]
        if not spare:
            break
        del chosen[max(spare, key=lambda place: (chosen[place].spare, place))]
    widths = {place: each.natural for place, each in chosen.items()}
    for _ in range(_total(widths.values()) - room):
        wide = [place for place, width in widths.items() if width > chosen[place].least]
        if not wide:
            break
        widths[max(wide, key=lambda place: widths[place])] -= 1
    return widths


def fits(columns: Sequence[Breadth], room: int) -> bool:
    """Whether there is room for everything as it is."""
    return _total([each.natural for each in columns]) <= room


def by_their_ends(ids: Sequence[str]) -> list[str]:
    """Long ids by their last characters, as many as tell them from each other.

    Ids begin with the time at which they were made, so the beginnings of many are alike.

    >>> by_their_ends(["019a8f3c-7d10-7e5f-9b5a-3f0c2d1e4a6b", "nightly"])
    ['…2d1e4a6b', 'nightly']
    """
    long = {each for each in ids if len(each) > ID_LENGTH_MAX}
    length = TAIL_LENGTH
    while len({each[-length:] for each in long}) < len(long):
        length += 1
    # A cut that saves next to nothing only hides something.
    return [
        ELLIPSIS + each[-length:] if len(each) > length + 1 and each in long else each
        for each in ids
    ]


def cut_in_the_middle(text: str, width: int) -> str:
    """A name of which the beginning says most, and the end tells it from others.

    >>> cut_in_the_middle("web-1-4711-a1b2c3d4e5f6", 16), cut_in_the_middle("mailer", 16)
    ('web-1-4…c3d4e5f6', 'mailer')
    """
    if len(text) <= width:
        return text
    tail = max(min(TAIL_LENGTH, width - 1), (width - 1) // 2)
    return text[: width - 1 - tail] + ELLIPSIS + text[len(text) - tail :]


def _total(widths: Collection[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
