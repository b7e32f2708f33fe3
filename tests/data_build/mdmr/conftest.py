"""What several stages' tests compare and start."""

from __future__ import annotations

from tests.data_build.editcompass.conftest import contents, kill_when

__all__ = ["contents", "kill_when"]
