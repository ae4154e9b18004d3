"""Makes `support` importable, in the tests and in the processes they start."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
