"""Every numbered clause of the contract has a test that names it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from leasehold.core.contract import store as contract
from leasehold.testing.conformance import StoreConformance


def clauses() -> set[str]:
    core = Path(contract.__file__).parent.parent
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(core.rglob("*.py")))
    return set(re.findall(r"^\s*- ([A-Z]{3}-\d+)  ", text, flags=re.MULTILINE))


def cited() -> set[str]:
    names = (re.match(r"test_([a-z]{3})_(\d+)_", name) for name in dir(StoreConformance))
    return {f"{match[1].upper()}-{match[2]}" for match in names if match}


def test_the_contract_has_clauses() -> None:
    assert {"ALL-1", "SUB-6", "LEA-7", "HIS-2"} <= clauses()


def test_every_clause_is_tested() -> None:
    assert clauses() - cited() == set()


def test_no_test_names_a_clause_that_is_not_there() -> None:
    assert cited() - clauses() == set()


def test_nobody_needs_pytest_to_use_leasehold() -> None:
    script = (
        "import sys, leasehold, leasehold.stores.memory\n"
        "print(sorted({'pytest', 'hypothesis'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
