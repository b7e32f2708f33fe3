"""A missing part of the stack says which feature needs it and how to install it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from gnomon.errors import UserError
from gnomon.optional import require


def test_what_is_installed_is_imported() -> None:
    assert require("json", feature="the report", extra="none") is json
    assert require("importlib.metadata", feature="the report", extra="none").version("pytest") == pytest.__version__


@pytest.mark.parametrize(
    ("module", "distribution", "named"),
    [("gnomon_absent", None, "gnomon_absent"), ("gnomon_absent.part", "gnomon-absent", "gnomon-absent")],
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(
    module: str, distribution: str | None, named: str
) -> None:
    expected = f"the W&B logger needs the package {named}, which is not installed; run: pip install 'gnomon[wandb]'"
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        require(module, feature="the W&B logger", extra="wandb", distribution=distribution)


def test_a_package_that_is_there_but_broken_keeps_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gnomon_broken.py").write_text("import gnomon_absent_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="gnomon_absent_dependency"):
        require("gnomon_broken", feature="x", extra="x")
    assert "gnomon_broken" not in sys.modules
