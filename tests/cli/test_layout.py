"""Which columns a terminal has room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leasehold.cli.layout import GAP, ID_LENGTH_MAX, Breadth, by_their_ends, laid_out

BREADTHS = st.lists(
    st.builds(
        lambda heading, more, fit, spare: Breadth(heading + more, heading, fit, spare),
        st.integers(1, 12),
        st.integers(0, 80),
        st.sampled_from(["wrap", "cut", "keep"]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=8,
)


def total(widths: list[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


@given(BREADTHS, st.integers(20, 200))
def test_a_table_fits_if_it_can(columns: list[Breadth], room: int) -> None:
    shown = laid_out(columns, room)
    least = total([each.least for each in columns if not each.spare])
    assert total(list(shown.values())) <= max(room, least)
    assert list(shown) == sorted(shown)
    for place, each in enumerate(columns):
        assert place in shown or each.spare
        if place in shown:
            assert each.least <= shown[place] <= each.natural


@given(BREADTHS)
def test_with_room_enough_nothing_is_touched(columns: list[Breadth]) -> None:
    natural = {place: each.natural for place, each in enumerate(columns)}
    assert laid_out(columns, total(list(natural.values()))) == natural


@given(BREADTHS, st.integers(20, 200))
def test_who_can_be_spared_most_goes_first(columns: list[Breadth], room: int) -> None:
    shown = laid_out(columns, room)
    gone = [each.spare for place, each in enumerate(columns) if place not in shown]
    kept = [columns[place].spare for place in shown]
    assert not gone or min(gone) >= max(kept, default=0)


@given(st.lists(st.text("0123456789abcdef-", min_size=1, max_size=40), unique=True))
def test_ids_by_their_ends_can_be_told_from_each_other(ids: list[str]) -> None:
    short = by_their_ends(ids)
    assert len(set(short)) == len(ids)
    for whole, shown in zip(ids, short, strict=True):
        assert whole.endswith(shown.removeprefix("…"))
        assert len(shown) <= len(whole)
        assert shown == whole or len(whole) > ID_LENGTH_MAX
