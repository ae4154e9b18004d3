"""Which Leasehold this is, for parts that are not to load the whole of it."""

from typing import Final

__version__: Final = "0.1.0"
