"""Columns are packed at once, to the same bytes as psycopg packs them cell by cell."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.core.model.span import Measure
from support.servers import needs_psycopg

needs_psycopg()

from psycopg.adapt import AdaptersMap, PyFormat, Transformer  # noqa: E402
from psycopg.postgres import adapters as of_psycopg  # noqa: E402
from psycopg.types.array import ListBinaryDumper  # noqa: E402

from leasehold.stores.postgres.server.arrays import RowPlaces  # noqa: E402
from leasehold.stores.postgres.server.connection import adapt  # noqa: E402

BIGINTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def dumped(values: list[Any], *, cell_by_cell: bool = False) -> tuple[int, int, bytes]:
    """The type and format under which a list is sent, and its bytes."""
    adapters = AdaptersMap(of_psycopg)
    adapt(adapters)
    if cell_by_cell:
        adapters.register_dumper(list, ListBinaryDumper)

    class Context:
        connection = None

    context: Any = Context()
    context.adapters = adapters
    dumper = Transformer.from_context(context).get_dumper(values, PyFormat.BINARY)
    return dumper.oid, dumper.format, bytes(dumper.dump(values) or b"")


@given(
    st.lists(BIGINTS | st.none())
    | st.lists(TEXTS | st.none())
    | st.lists(st.binary() | st.none())
    | st.lists(st.floats(allow_nan=False))
    | st.lists(st.booleans() | st.none())
    | st.lists(st.sampled_from(Measure) | BIGINTS)
)
@example([b"as long", b"as this"])
def test_a_column_is_sent_as_psycopg_sends_it(values: list[Any]) -> None:
    assert dumped(values) == dumped(values, cell_by_cell=True)


@given(BIGINTS | TEXTS | st.binary(), st.integers(1, 300))
def test_a_column_of_the_same_is_sent_as_psycopg_sends_it(value: Any, rows: int) -> None:
    assert dumped([value] * rows) == dumped([value] * rows, cell_by_cell=True)


def test_places_of_rows_are_given_back_as_they_came() -> None:
    (oid, _, packed), place = dumped(RowPlaces([b"\0\0\0\1\0\2"])), b"\0\0\0\1\0\2"
    assert oid == 1010
    assert packed.endswith(b"\0\0\0\6" + place)
