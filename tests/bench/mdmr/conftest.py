"""Small datasets of MDMR-Bench: cases of several families with checklists, and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image

from bench.mdmr.cases import NAME
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Question, Reference, Text

MakeCase = Callable[..., Case]


@pytest.fixture(scope="session")
def make_case() -> MakeCase:
    """A function that makes a case with so many questions in each dimension, in their order."""

    def make(
        case_id: str = "c",
        family: str = "entity_fusion",
        subtask: str | None = "people",
        num_references: int = 2,
        no: Sequence[str] = (),
        depends_on: dict[str, list[str]] | None = None,
        **counts: int,
    ) -> Case:
        questions = [
            Question(
                id=name,
                text=Text(en=f"Does {name} hold for reference 1?", zh=f"参考图1符合{name}吗？"),
                level="global" if number == 1 else "atomic",
                dimension=dimension,
                expected=name not in no,
                about=["reference-1"],
                depends_on=(depends_on or {}).get(name, []),
            )
            for dimension, count in counts.items()
            for number in range(1, count + 1)
            for name in [f"{dimension}-{number}"]
        ]
        return Case(
            id=case_id,
            benchmark=NAME,
            task=family,
            subtask=subtask,
            instruction=Text(en=f"put both of {case_id} together", zh="放在一起"),
            references=[Reference(path=f"images/{number}.png", role="person") for number in range(num_references)],
            questions=questions,
        )

    return make


@pytest.fixture
def write_dataset(tmp_path: Path) -> Callable[[Sequence[Case]], Path]:
    """A function that writes cases with the pictures that they name."""

    def write(cases: Sequence[Case]) -> Path:
        root = tmp_path / "cases"
        for path in {reference.path for case in cases for reference in case.references}:
            level = 10 + 20 * int(Path(path).stem)
            save_png(Image.new("RGB", (32, 32), (level, 255 - level, level // 2)), root / path)
        write_records(root / "cases.jsonl", cases)
        return root

    return write
