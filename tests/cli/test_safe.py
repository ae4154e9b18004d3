"""What others wrote cannot harm the terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from leasehold.cli.output import json_text
from leasehold.cli.safe import safe

ANYTHING = st.text(st.characters(), max_size=200)
HARMFUL = {chr(n) for n in (*range(0x20), *range(0x7F, 0xA0))} | set(
    "\u200e\u200f\u061c\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
)


@given(ANYTHING)
def test_nothing_harmful_is_left(text: str) -> None:
    assert not HARMFUL & set(safe(text))
    assert not (HARMFUL - {"\n", "\t"}) & set(safe(text, lines=True))


@given(st.text("abc äöü 漢字 🙂", max_size=50))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


@given(st.text("abc\x1b\n", min_size=1, max_size=500), st.integers(1, 100))
def test_a_long_line_is_cut(text: str, limit: int) -> None:
    assert len(safe(text, limit=limit)) <= limit * len("\\x1b")


# No store can hold a lone surrogate.
STORED = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(st.dictionaries(STORED, STORED | st.integers(-(2**53), 2**53) | st.none(), max_size=5))
def test_json_is_harmless_and_means_the_same(document: dict[str, object]) -> None:
    text = json_text(document)
    assert not HARMFUL & set(text)
    assert json.loads(text) == document
    assert json.loads(json_text(document, indent=2)) == document
