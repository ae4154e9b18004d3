"""What the source of a module says about its names, without an import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leasehold.worker.source_names import SOURCE_BYTES_MAX, source_names

SHOP = """
import os.path
from json import dumps as write
try:
    import tomllib
except ImportError as problem:
    tomllib = None
if os.name == "posix":
    def pay(order): inner = lost = 1
async def ship(): ...
class Till:
    def open(self): ...
one, (two, *rest) = 1, (2, 3)
with open(os.devnull) as file: ...
for each in range(3): ...
@queue.task(name="shop:billing", aliases=["shop:bill"])
def _invoice(): ...
raise SystemExit("this must not run")
"""


def test_names_are_read_and_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    names = source_names("shop", [str(tmp_path)])
    assert names is not None
    assert names.defined == {
        "os", "write", "problem", "tomllib", "pay", "ship", "Till", "one", "two", "rest", "file",
        "each", "_invoice",
    }  # fmt: skip
    assert "shop" not in sys.modules
    assert names.may_have("shop:pay", "pay")
    assert names.may_have("shop:Till.open", "Till.open")
    assert names.may_have("shop:billing", "billing"), "a name that a decorator gives"
    assert names.may_have("shop:bill", "bill"), "a task's old name"
    assert not names.may_have("shop:lost", "lost")


def test_a_package_has_its_modules_and_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("def pay(): ...\nraise SystemExit")
    (tmp_path / "shop" / "mail.py").write_text("def send(): ...")
    folders = [str(tmp_path)]
    package, module = source_names("shop", folders), source_names("shop.mail", folders)
    assert package is not None
    assert package.defined == {"pay", "mail"}
    assert module is not None
    assert module.defined == {"send"}
    assert source_names("shop.post", folders) is None
    assert source_names("shop.mail.deeper", folders) is None


@pytest.mark.parametrize(
    "source",
    [
        "from os import *",
        "def __getattr__(name): return print",
        "globals()['pay'] = print",
        "exec('def pay(): ...')",
        "import sys; sys.modules[__name__].pay = print",
        "def make():\n    global pay\n    pay = print",
        "this is no Python",
        "# " + "x" * SOURCE_BYTES_MAX,
    ],
)
def test_a_module_that_may_have_other_names_says_nothing(tmp_path: Path, source: str) -> None:
    (tmp_path / "shop.py").write_text(source)
    assert source_names("shop", [str(tmp_path)]) is None


@pytest.mark.parametrize("name", ["", ".", "shop.", ".shop", "no such module", "apsw", "math"])
def test_a_module_without_source_says_nothing(name: str) -> None:
    assert source_names(name, sys.path) is None
