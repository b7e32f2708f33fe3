"""How many failed items make a step end with an error; the thresholds are counted as inspect_ai counts them."""

from __future__ import annotations

import pytest

from bench.failures import check_failures
from gnomon.errors import UserError


@pytest.mark.parametrize(
    ("failed", "total", "fail_on_error", "expected"),
    [
        (0, 100, True, False), (1, 100, True, True),
        (1, 100, False, False), (99, 100, False, False), (100, 100, False, True),
        (0, 100, 0.0, False), (1, 100, 0.0, True),
        (9, 100, 0.1, False), (10, 100, 0.1, True), (7, 100, 0.07, True), (1, 3, 0.5, False), (2, 3, 0.5, True),
        (0, 100, 1.0, False), (1, 100, 1.0, True), (4, 100, 5.0, False), (5, 100, 5.0, True),
        (3, 3, 5.0, True), (0, 0, True, False), (0, 0, False, False),
    ],
)  # fmt: skip
def test_too_many_failures_are_an_error(failed: int, total: int, fail_on_error: float, expected: bool) -> None:
    failures = [("api_error", "no")] * failed
    if not expected:
        check_failures("candidates", failures, num_items=total, fail_on_error=fail_on_error)
        return
    with pytest.raises(UserError):
        check_failures("candidates", failures, num_items=total, fail_on_error=fail_on_error)


def test_the_error_counts_by_status_and_shows_one_of_the_commonest() -> None:
    failures = [("refused", "unsafe"), ("api_error", None), ("api_error", "HTTP 500")]
    with pytest.raises(
        UserError,
        match=r"3 of 9 verdicts failed \(--fail-on-error 0\.2\): 2 api_error, 1 refused; the first api_error: HTTP 500",
    ):
        check_failures("verdicts", failures, num_items=9, fail_on_error=0.2)
    with pytest.raises(UserError, match=r"1 of 9 verdicts failed \(--fail-on-error true\): 1 refused: unsafe\. Mend"):
        check_failures("verdicts", failures[:1], num_items=9, fail_on_error=True)
