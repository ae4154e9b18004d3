"""Payloads and results as bytes: data, never code.

JSON by default. The one rule: **a task receives a value equal to the submitted one** (a tuple comes
as a list), or its type hints say how to rebuild it; a value that JSON would change in silence is
refused when it is submitted. Pickle is opt-in per queue object and signed.
"""

from leasehold.codec.call import CallCodec, Passes, passes_results
from leasehold.codec.document import decode_document, encode_document

__all__ = ["CallCodec", "Passes", "decode_document", "encode_document", "passes_results"]
