"""The judge's verdicts: scores as they are written, failures at their place, two stages, and the whole path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import gnomon
from bench.editcompass.cases import METRICS
from bench.editcompass.judge import EditCompassJudge, read_differences, read_score
from bench.editcompass.questions import DIFFERENCES, TWO_STAGES, prompt_hash
from bench.generators import FolderGenerator
from bench.results import Results
from bench.workflow import generate, judge, summarize
from gnomon.cli import main
from gnomon.errors import UserError
from gnomon.images import content_hash
from gnomon.records import Status
from rm.judge import JudgeRequest
from rm.judge_config import read_judge
from rm.vlm.conversation import GenerationParameters, Reply
from rm.vlm.local import LocalVLM
from rm.vlm.scripted import ScriptedVLM, prompt_text
from tests.bench.editcompass.conftest import Remembering
from tests.bench.editcompass.release import write_release
from tests.bench.editcompass.test_questions import pose
from tests.bench.report.test_leaderboard import rows
from tests.rm.vlm.families import save_checkpoint

Ask = Callable[..., JudgeRequest]


def reply(score: object, **more: Any) -> str:
    return json.dumps({"analysis": {"requirements": []}, "reason": f"it is {score}", "score": score, **more})


@pytest.mark.parametrize(
    ("text", "value", "status"),
    [
        (reply(4), 4.0, "ok"),
        (reply("4"), 4.0, "ok"),  # the released judge breaks on it
        (reply(3.5), 3.5, "ok"),  # and cuts this to 3 when it resumes
        ('{"analysis": {"requirements": [{"status": "pass"}], "score": 2}, "reason": "x"}', 2.0, "ok"),
        (f"```json\n{reply(5)}\n```", 5.0, "ok"),
        (reply(6), None, "out_of_range"),
        (reply(0), None, "out_of_range"),
        ('{"analysis": {"requirements": []}, "reason": "good"}', None, "parse_error"),
        ("It looks good to me.", None, "parse_error"),
        (reply("N/A"), None, "parse_error"),
        ("N/A", None, "parse_error"),
        ('{"analysis": {"requirements": [{"subj', None, "truncated"),
        ("I'm sorry, I can't assist with that.", None, "refused"),
        ("", None, "parse_error"),
    ],
)
def test_a_score_is_read_as_it_is_written(text: str, value: float | None, status: Status) -> None:
    parsed = read_score(Reply(text), "instruction_following")
    assert (parsed.value, parsed.status) == (value, status)


@pytest.mark.parametrize(
    ("text", "found", "status"),
    [
        ('{"differences": []}', [], "ok"),
        ("[]", [], "ok"),
        ("```json\n[]\n```", [], "ok"),
        ('```\n[{"place": "a"}]\n```\n', [{"place": "a"}], "ok"),
        ('{"differences": ["the sky is [very] dark]"]}', ["the sky is [very] dark]"], "ok"),
        ('So:\n```json\n{"differences": [{"at": [[1], [3]]}]}\n```', [{"at": [[1], [3]]}], "ok"),
        ('[{"place": "a"}, {"place": "b"}]', [{"place": "a"}, {"place": "b"}], "ok"),
        ('{"differences": "none"}', None, "parse_error"),
        ('{"differences": [1]}', None, "parse_error"),
        ('{"differences": [""]}', None, "parse_error"),
        ('{"score": 3}', None, "parse_error"),
        ("No differences that I could see.", None, "parse_error"),
        ('{"differences": [{"place": "a"}, {"pla', None, "truncated"),
        ('{"differences": [{"place": "a"}, {"place": "b"', None, "truncated"),
        ("抱歉，无法比较。", None, "refused"),
    ],
)  # fmt: skip
def test_a_list_of_differences_is_read_whole_or_fails(text: str, found: Any, status: Status) -> None:
    for finish_reason in (None, "stop"):
        parsed = read_differences(Reply(text, finish_reason=finish_reason))
        assert parsed.status == status
        assert (None if parsed.value is None else json.loads(parsed.value)) == found


def test_each_request_gets_its_verdict_at_its_place(request_about: Ask) -> None:
    requests = [request_about(flag, "Part3", "Casual") for flag in ("IF", "WA", "IC", "VQ")]
    replies = {"IF": reply(4), "WA": reply("3"), "IC": "no score", "VQ": reply(9)}
    table = {
        prompt_text(pose(request, request.metric)): replies[flag]
        for flag, request in zip(replies, requests, strict=True)
    }
    lost = request_about("IF", image=None)
    vlm = Remembering("table", table=table)
    tested = EditCompassJudge(vlm, batch_size=3)
    verdicts = tested.judge([*requests, lost, request_about("taste"), request_about("WA", WA=False)])
    assert [(verdict.value, verdict.status) for verdict in verdicts] == [
        (4.0, "ok"),
        (3.0, "ok"),
        (None, "parse_error"),
        (None, "out_of_range"),
        (None, "missing_output"),
        (None, "not_applicable"),
        (None, "not_applicable"),
    ]
    assert [verdict.judge for verdict in verdicts] == [tested.fingerprint] * 7
    first, quality = verdicts[0], verdicts[3]
    root, case = requests[0].root, requests[0].case
    assert first.image_hashes == [content_hash(root / case.references[0].path), content_hash(root / "0.png")]
    assert quality.image_hashes == [content_hash(root / "0.png")]
    assert (first.raw, first.prompt_hash) == (reply(4), prompt_hash(case, "instruction_following", "en"))
    assert first.rationale == '{"requirements": []}\nit is 4'
    assert {parameters.max_tokens for parameters in vlm.parameters} == {4096}


def test_asking_changes_nothing_of_what_was_given(request_about: Ask) -> None:
    """The released judge adds the edited image to the caller's own list, so a second question shows it twice."""
    requests = [request_about(flag, "Part5", "Virtual_Try_On") for flag in ("IF", "URC", "VQ")]
    before = [request.case.model_dump() for request in requests]
    vlm = Remembering("always_first", answers=[reply(4, differences=["a"])])
    for _ in range(2):
        EditCompassJudge(vlm).judge(requests)
    assert [request.case.model_dump() for request in requests] == before
    half = len(vlm.asked) // 2
    shown = [
        [content_hash(part) for turn in question for part in turn.content if not isinstance(part, str)]
        for question in vlm.asked
    ]
    assert shown[:half] == shown[half:]
    assert max(map(len, shown)) == 4


def test_a_broken_source_does_not_hinder_judging_quality(request_about: Ask) -> None:
    requests = [request_about("IF"), request_about("VQ")]
    (requests[0].root / requests[0].case.references[0].path).write_bytes(b"no picture")
    verdicts = EditCompassJudge(ScriptedVLM("always_first", answers=[reply(5)])).judge(requests)
    assert [verdict.status for verdict in verdicts] == ["unreadable_image", "ok"]


def test_without_a_source_only_quality_can_be_judged(request_about: Ask) -> None:
    def bare(flag: str) -> JudgeRequest:
        made = request_about(flag)
        return JudgeRequest(
            made.case.model_copy(update={"references": []}), made.root, made.candidate, made.image, made.metric
        )

    verdicts = EditCompassJudge(ScriptedVLM("always_first", answers=[reply(5)])).judge([bare(flag) for flag in METRICS])
    assert [verdict.status for verdict in verdicts] == ["not_applicable"] * 4 + ["ok"]


def two_stages(request: JudgeRequest, first: str, second: str | None, found: str | None = None) -> dict[str, str]:
    table = {prompt_text(pose(request, DIFFERENCES)): first}
    if second is not None:
        table[prompt_text(pose(request, TWO_STAGES, differences=found or ""))] = second
    return table


def test_the_unedited_region_is_judged_in_two_stages(request_about: Ask) -> None:
    request = request_about("URC")
    found = json.dumps([{"place": "the sky", "after": "a bird, 鸟"}], ensure_ascii=False)
    first = f'{{"differences": {found}}}'
    vlm = Remembering("table", table=two_stages(request, first, reply(3), found))
    verdict = EditCompassJudge(vlm).judge([request])[0]
    assert (verdict.value, verdict.status) == (3.0, "ok")
    assert len(vlm.asked) == 2
    assert json.loads(verdict.raw or "") == {"differences": first, "score": reply(3)}
    assert (verdict.rationale or "").startswith(f"differences: {found}\n")
    assert (verdict.rationale or "").endswith("it is 3")


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("I see a bird.", "parse_error"),
        ('{"score": 5}', "parse_error"),
        ('{"differences": [{"pl', "truncated"),
        ("I'm sorry, I can't help with that.", "refused"),
    ],
)
def test_without_a_list_there_is_no_second_stage_and_no_score(first: str, status: Status, request_about: Ask) -> None:
    """The released judge goes on with an empty list, and does not say so."""
    request = request_about("URC")
    other = request_about("IF")
    table = two_stages(request, first, None) | {prompt_text(pose(other, other.metric)): reply(2)}
    vlm = Remembering("table", table=table)
    verdict, unharmed = EditCompassJudge(vlm).judge([request, other])
    assert (verdict.value, verdict.status) == (None, status)
    assert "no list of differences" in (verdict.rationale or "")
    assert json.loads(verdict.raw or "") == {"differences": first}
    assert len(vlm.asked) == 2
    assert unharmed.value == 2.0


def test_a_second_stage_that_fails_keeps_the_list(request_about: Ask) -> None:
    request = request_about("URC")
    vlm = ScriptedVLM("table", table=two_stages(request, '{"differences": []}', "nothing", "[]"))
    verdict = EditCompassJudge(vlm).judge([request])[0]
    assert (verdict.value, verdict.status) == (None, "parse_error")
    assert (verdict.rationale or "").startswith("differences: []\n")


def test_several_samples_are_averaged_stage_by_stage(request_about: Ask) -> None:
    requests = [request_about("URC"), request_about("IF")]
    answers = [reply(score, differences=[]) for score in (1, 2, 4, 5)] + ["nothing"]
    vlm = Remembering("random", answers=answers, seed=3)
    tested = EditCompassJudge(vlm, samples=4, parameters=GenerationParameters(temperature=0.7, seed=5))
    verdicts = tested.judge(requests)
    assert [parameters.seed for parameters in vlm.parameters][:2] == [5, 5]
    assert {parameters.seed for parameters in vlm.parameters} == {5, 6, 7, 8}
    for verdict in verdicts:
        raws = json.loads(verdict.raw or "")
        assert len(raws) == 4
        scores = [raw if verdict.metric != TWO_STAGES else json.loads(raw).get("score", "") for raw in raws]
        good = [json.loads(raw)["score"] for raw in scores if raw and raw != "nothing"]
        assert verdict.value == pytest.approx(sum(good) / len(good))
        assert (verdict.rationale or "").startswith(f"mean of {len(good)} of 4 samples")
    with pytest.raises(UserError, match="samples=2 at 0"):
        EditCompassJudge(vlm, samples=2)
    with pytest.raises(UserError, match="'fr'"):
        EditCompassJudge(vlm, language="fr")


def test_the_fingerprint_follows_everything_that_an_answer_depends_on() -> None:
    vlm, sampled = ScriptedVLM("always_yes"), GenerationParameters(temperature=0.5)
    judges = [
        EditCompassJudge(vlm),
        EditCompassJudge(ScriptedVLM("always_no")),
        EditCompassJudge(vlm, language="zh"),
        EditCompassJudge(vlm, parameters=sampled),
        EditCompassJudge(vlm, parameters=sampled, samples=2),
    ]
    assert len({tested.fingerprint for tested in judges}) == len(judges)
    assert EditCompassJudge(vlm, name="x", batch_size=1).fingerprint == judges[0].fingerprint


def test_a_file_describes_it(tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(
        "class_path: bench.editcompass.judge.EditCompassJudge\n"
        "init_args:\n  language: zh\n  parameters: {max_tokens: 99}\n"
        "  vlm: {class_path: rm.vlm.scripted.ScriptedVLM, init_args: {rule: always_yes}}\n"
    )
    read = read_judge(path)
    assert (read.language, read.parameters.max_tokens, read.metrics) == ("zh", 99, tuple(METRICS.values()))


def test_a_real_model_is_asked_and_its_nonsense_is_a_status(request_about: Ask, tmp_path: Path) -> None:
    vlm = LocalVLM(save_checkpoint("smolvlm", tmp_path / "smolvlm"))
    prompt = "put <image> and <|image_pad|> beside {it}"  # for this family, the first stands for a picture
    requests = [request_about(flag, "Part6", "Complex_Paint_en", prompt_en=prompt) for flag in ("IF", "URC", "VQ")]
    verdicts = EditCompassJudge(vlm, parameters=GenerationParameters(max_tokens=8)).judge(requests)
    assert all(verdict.status in ("parse_error", "truncated") for verdict in verdicts), verdicts
    assert all(verdict.raw for verdict in verdicts)


class Copying:
    """A generator that changes nothing."""

    def generate(self, cases: Any, references: Any, seeds: Any) -> list[Image.Image]:
        return [shown[0] for shown in references]


def test_a_metric_that_no_case_of_a_run_has_is_not_what_a_missing_picture_fails(tmp_path: Path) -> None:
    write_release(tmp_path / "release")
    cases, pictures = tmp_path / "cases", tmp_path / "pictures"
    assert main(["data", "import", "edit-compass", "--from", str(tmp_path / "release"), "--out", str(cases)]) == 0
    pictures.mkdir()
    Image.new("RGB", (8, 8)).save(pictures / "Part1%2FADD%2FADD_1.png")
    generate(cases, tmp_path / "run", FolderGenerator(pictures), name="half", tasks=("add",))
    vlm = ScriptedVLM("always_first", answers=[reply(4, differences=[])])
    judge(tmp_path / "run", EditCompassJudge(vlm, name="four"))
    metrics = summarize(tmp_path / "run").judges["four"].metrics
    assert (metrics["instruction_following"].n_scored, metrics["instruction_following"].n_failed) == (1, 1)
    assert (metrics["world_awareness"].n_failed, metrics["world_awareness"].n_na) == (0, 2)


def test_the_release_is_imported_generated_judged_and_summarized(tmp_path: Path) -> None:
    write_release(tmp_path / "release")
    cases = tmp_path / "cases"
    assert main(["data", "import", "edit-compass", "--from", str(tmp_path / "release"), "--out", str(cases)]) == 0
    generate(cases, tmp_path / "run", Copying(), name="copy", batch_size=72)
    vlm = ScriptedVLM("always_first", answers=[reply(4, differences=[])])
    judge(tmp_path / "run", EditCompassJudge(vlm, name="four"), batch_size=72)
    results = summarize(tmp_path / "run")
    metrics = results.judges["four"].metrics
    hashes = results.judges["four"].prompt_hashes
    assert {name: len(found) for name, found in hashes.items()} == {
        "instruction_following": 5,  # four variants, and one more where the outcome is to be worked out
        "world_awareness": 1,
        "unedited_region_consistency": 4,
        "identity_consistency": 4,
        "visual_quality": 4,
    }
    assert results.version == gnomon.__version__
    assert {name: metric.value for name, metric in metrics.items()} == pytest.approx(
        dict.fromkeys(
            [
                *METRICS.values(),
                *("instruction_awareness", "visual_consistency", "overall", "overall_official_summary"),
            ],
            4.0,
        )
    )
    overall = metrics["overall"]
    assert (overall.n_scored, overall.n_failed, overall.is_partial) == (72, 0, False)
    assert {kind: len(found) for kind, found in overall.groups.items()} == {"category": 6, "task": 36, "perception": 4}
    assert overall.groups["perception"]["complex_paint"].n_total == 4
    assert (metrics["visual_consistency"].n_scored, metrics["visual_consistency"].n_na) == (70, 2)
    assert metrics["world_awareness"].n_scored == 30
    assert not any(metric.is_partial for metric in metrics.values())
    assert Results.model_validate_json((tmp_path / "run/results.json").read_bytes()) == results

    board = ["bench", "report", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "board")]
    assert main([*board, "--metrics", "overall", "--num-examples", "0"]) == 0
    ((_, *perception, _),) = rows((tmp_path / "board/report.html").read_text(), "overall by perception")
    scored = [cell.split("to ")[-1] for cell in perception]  # complex_paint, movement, multi_image_aware, swap
    assert scored == ["4.000 4 of 4 scored", *["4.000 2 of 2 scored"] * 3]
