"""Payloads and results that are too large for a row: how a TaskQueue stores and reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from leasehold.blobs.blobs import Blobs
from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.job import Draft
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.records import Submitted
from leasehold.errors import InvalidJobError, LeaseholdError
from leasehold.worker.large import fetch


def bytes_max(blobs: Blobs | None) -> int:
    """The largest payload or result that is accepted."""
    return PAYLOAD_BYTES_MAX if blobs is None else blobs.bytes_max


def has_large(drafts: Sequence[Draft]) -> bool:
    """Whether one of these payloads has to be put into the blob store first."""
    for draft in drafts:  # noqa: SIM110 - every submit asks, and any() takes three times as long.
        if len(draft.payload) > PAYLOAD_BYTES_MAX:
            return True
    return False


def submit_large(
    submit: Callable[[Sequence[Draft]], list[Submitted | LeaseholdError]],
    blobs: Blobs,
    drafts: Sequence[Draft],
) -> tuple[Sequence[Draft], list[Submitted | LeaseholdError]]:
    """Store large payloads and submit; also returns the drafts as they were stored.

    There is no wait between the two, so that no clean-up takes a blob for one without a job. If
    `submit` writes into a transaction that is rolled back later, the clean-up finds the blobs.
    """
    kept: list[Draft] = []
    try:
        for draft in drafts:
            kept.append(_kept(blobs, draft))  # noqa: PERF401 - one by one: any may fail.
    except LeaseholdError:
        blobs.forget_payloads([kept[index] for index in _put_away(drafts, kept)])
        raise
    try:
        answers = submit(kept)
    except LeaseholdError as error:
        _forget_refused(blobs, drafts, kept, [error] * len(kept))
        raise
    _forget_refused(blobs, drafts, kept, answers)
    return kept, answers


def _forget_refused(
    blobs: Blobs,
    drafts: Sequence[Draft],
    kept: Sequence[Draft],
    answers: Sequence[Submitted | LeaseholdError],
) -> None:
    """Delete blobs that were written in vain."""
    put_away = _put_away(drafts, kept)
    blobs.forget_refused([kept[each] for each in put_away], [answers[each] for each in put_away])


def _put_away(drafts: Sequence[Draft], kept: Sequence[Draft]) -> list[int]:
    """The references written by this call, without those that drafts already had."""
    return [
        index
        for index, draft in enumerate(kept)
        if draft is not drafts[index] and draft.codec == BLOB_CODEC
    ]


def _kept(blobs: Blobs, draft: Draft) -> Draft:
    """The draft in a form that the store accepts."""
    if len(draft.payload) <= PAYLOAD_BYTES_MAX:
        return draft
    without_payload = msgspec.structs.replace(draft, payload=b"")
    try:
        without_payload.check()
    except InvalidJobError:
        # The store will refuse it for the same reason, and knows what that means for the other
        # drafts.
        return without_payload
    return blobs.keep_payload(draft)


def inline(blobs: Blobs | None, data: bytes, codec: str) -> tuple[bytes, str]:
    """The data (fetched if needed) and its codec."""
    return fetch(blobs, data) if codec == BLOB_CODEC else (data, codec)
