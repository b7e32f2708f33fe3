"""Which errors count as Ctrl-C."""

from __future__ import annotations

import sys

import pytest

from gnomon.errors import UserError, is_interrupt


def test_ctrl_c_is_an_interrupt_and_an_error_is_none() -> None:
    assert is_interrupt(KeyboardInterrupt())
    assert not is_interrupt(UserError("no"))
    assert not is_interrupt(SystemExit(1))


def test_the_exit_that_lightning_makes_of_ctrl_c_is_an_interrupt() -> None:
    def fit() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)

    with pytest.raises(SystemExit) as caught:
        fit()
    assert is_interrupt(caught.value)
