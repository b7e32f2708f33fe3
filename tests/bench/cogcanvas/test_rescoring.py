"""Questions and answers in full are in the run folder: prompts can be put together again, and another judge asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from PIL import Image

from bench.folder import BenchRun, JudgeFile, judge_file, read_json
from bench.generators import FolderGenerator
from bench.workflow import generate, judge, summarize
from gnomon.cli import main
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.jsonl import read_records
from gnomon.records import Case, Verdict
from rm.protocols.checklist import ChecklistJudge
from rm.protocols.parsing import read_one_word
from rm.protocols.templates import compose, quoted, text_hash
from rm.vlm.conversation import Conversation, GenerationParameters, Reply
from rm.vlm.scripted import ScriptedVLM, prompt_text

MakeCase = Callable[..., Case]
ASKED = [("attribute", "Ann"), ("binding", "Bob,cup"), ("interaction", "Ann,Bob"), ("position", "Ann,Bob")]


class KeepingVLM(ScriptedVLM):
    """Answers by lot and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__("random", answers=["Yes.", "No", "I can"])
        self.asked: list[str] = []

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Answer, and keep the questions."""
        self.asked += [prompt_text(conversation) for conversation in conversations]
        return super().generate(conversations, parameters)


@pytest.fixture
def judged(make_case: MakeCase, tmp_path: Path) -> tuple[Path, KeepingVLM]:
    """A judged run of three cases, and who answered."""
    cases = [make_case(f"c{number}", ("Ann", "Bob", "Cem")[: 2 + number % 2], ASKED) for number in range(3)]
    root = tmp_path / "cases"
    for place, path in enumerate(sorted({one.path for case in cases for one in case.references})):
        save_png(Image.new("RGB", (8, 8), (20 * place, 90, 90)), root / path)
    write_records(root / "cases.jsonl", cases)
    for place, case in enumerate(cases):
        save_png(Image.new("RGB", (8, 8), (9, 50 * place, 9)), tmp_path / "pictures" / f"{case.id}.png")
    run = generate(root, tmp_path / "run", FolderGenerator(tmp_path / "pictures"), name="mine")
    vlm = KeepingVLM()
    judge(run.path, ChecklistJudge(vlm, form="yes_no", name="words"))
    return run.path, vlm


def test_every_prompt_and_reply_can_be_read_from_the_run_folder_alone(
    judged: tuple[Path, KeepingVLM], tmp_path: Path
) -> None:
    run, vlm = judged
    copy = tmp_path / "published"
    shutil.copytree(run, copy)
    shutil.rmtree(tmp_path / "cases")
    published = BenchRun.read(copy)
    texts = read_json(copy / judge_file("words"), JudgeFile).texts
    rebuilt = []
    for verdict in read_records(copy / "samples.jsonl", Verdict):
        case = published.cases[verdict.case_id]
        (question,) = (one for one in case.questions if one.id == verdict.question_id)
        words = question.text.get("en")
        assert text_hash(texts, {"question": words}) == verdict.prompt_hash
        values = {"instruction": quoted(case.instruction.get("en")), "question": quoted(words)}
        pictures = [Image.new("RGB", (8, 8))] * len(case.references)
        conversation = compose(
            texts, language="en", references=pictures, candidates=[Image.new("RGB", (8, 8))], values=values
        )
        rebuilt.append(prompt_text(conversation))
        assert verdict.raw in ("Yes.", "No", "I can")
        read = read_one_word(verdict.raw)
        assert (read.status, None if read.value is None else float(read.value)) == (verdict.status, verdict.value)
    assert rebuilt == vlm.asked
    assert len(rebuilt) == 12


def test_another_judge_scores_the_same_pictures_without_generating_anew(
    judged: tuple[Path, KeepingVLM], tmp_path: Path
) -> None:
    run, _ = judged
    before = (run / "samples.jsonl").read_text()
    pictures = {path.name: path.read_bytes() for path in (run / "images").iterdir()}
    file = tmp_path / "judge.yaml"
    vlm = {"class_path": "rm.vlm.scripted.ScriptedVLM", "init_args": {"rule": "always_yes"}}
    other = {"class_path": "rm.protocols.yes_no.YesNoJudge", "init_args": {"name": "other", "vlm": vlm}}
    file.write_text(yaml.safe_dump(other))
    assert main(["bench", "judge", "--run", str(run), "--judge", str(file)]) == 0
    assert (run / "samples.jsonl").read_text().startswith(before)
    assert {path.name: path.read_bytes() for path in (run / "images").iterdir()} == pictures
    results = summarize(run).judges
    assert list(results) == ["other", "words"]
    assert results["other"].metrics["attr_vqa"].value == 1.0
    assert results["other"].metrics["attr_vqa"].n_scored == 3
    lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()[12:]]
    assert {line["prompt_hash"] for line in lines} == {json.loads(line)["prompt_hash"] for line in before.splitlines()}
    assert all("Yes" in json.loads(line["raw"]) for line in lines), "probabilities of every spelling"
