"""An evaluation counts what it should, survives a kill, and names every failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gnomon.datasets import read_comparisons, write_records
from gnomon.errors import UserError
from gnomon.images import load_image
from rm.cli import evaluate
from rm.evaluate import read_judged, run_evaluation
from rm.judge import RewardModelJudge
from rm.reward_model import RewardModel
from rm.scorers import JudgedComparison, PairSample, PointwiseScorer, read_samples
from tests.rm.vlm.server import Answer, ChatServer, completion

Write = Callable[..., Path]


def _results(out: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((out / "results.json").read_text())
    return loaded


def _samples(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]


def test_a_reward_model_is_scored_as_its_scores_say(
    base_folder: Path, write_comparisons: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_comparisons(tmp_path / "data", 5)
    model = RewardModel.from_base(base_folder, seed=2)
    model.save_pretrained(tmp_path / "model")
    evaluate(judge=str(tmp_path / "model"), data=str(root), out=str(tmp_path / "run"), min_margin=[0.5])

    right = wrong = 0
    for comparison in read_comparisons(root):
        values = model.score(
            instruction="make the circle red",
            references=[load_image(root / comparison.references[0].path)],
            candidates=[load_image(root / candidate.path) for candidate in comparison.candidates],
        ).values[:, 3]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            better = comparison.candidates[i].scores["overall"] > comparison.candidates[j].scores["overall"]
            right, wrong = (right + 1, wrong) if (values[i] > values[j]) == better else (right, wrong + 1)
    overall = _results(tmp_path / "run")["dimensions"]["overall"]
    assert overall["all"]["n"] == 15
    assert overall["all"]["strict"] == pytest.approx(right / (right + wrong))
    assert overall["all"]["num_groups"] == 3
    assert overall["margin>=0.5"]["n"] == 5  # only the darkest against the brightest
    quality = _results(tmp_path / "run")["dimensions"]["visual_quality"]["all"]
    assert (quality["n"], quality["n_ties"], quality["strict"]) == (0, 15, None)
    lines = _samples(tmp_path / "run")
    assert len(lines) == 5 * 3 * 4
    first = next(line for line in lines if line["dimension"] == "overall")
    assert first["difference"] == pytest.approx(first["scores"][0] - first["scores"][1])
    assert first["correct"] == ((first["difference"] > 0) == (first["label"] == 1))
    printed = capsys.readouterr().out
    assert "overall" in printed
    assert "margin>=0.5" in printed


def test_control_judges_reach_what_they_must(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 20)
    for judge in ("always-first", "random", "majority"):
        evaluate(judge=judge, data=str(root), out=str(tmp_path / judge))
    labels = [line["label"] for line in _samples(tmp_path / "random") if line["dimension"] == "overall"]
    skew = labels.count(1) / len(labels)
    figures = {judge: _results(tmp_path / judge)["dimensions"] for judge in ("always-first", "random", "majority")}
    assert figures["always-first"]["overall"]["all"]["strict"] == pytest.approx(skew)
    assert figures["majority"]["overall"]["all"]["strict"] == pytest.approx(max(skew, 1 - skew))
    assert figures["majority"]["visual_quality"]["all"]["tie_rule"] == 1
    assert figures["random"]["overall"]["all"]["ci_low"] < 0.5 < figures["random"]["overall"]["all"]["ci_high"]


def test_a_base_model_is_scored_by_its_own_yes_or_no(
    base_folder: Path, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    evaluate(judge=str(base_folder), data=str(root), out=str(tmp_path / "run"))
    results = _results(tmp_path / "run")
    assert results["judge"] == "judge (zero-shot yes or no)"
    assert results["statuses"] == {"ok": 24}
    with pytest.raises(UserError, match=r"reward_model\.json"):
        evaluate(judge=str(root), data=str(root), out=str(tmp_path / "other"))


class Interrupted(PointwiseScorer):
    """A scorer that is killed in the middle of its second call."""

    calls = 0

    def samples(self, items: Sequence[JudgedComparison]) -> Iterator[PairSample]:
        for number, sample in enumerate(super().samples(items)):
            if self.calls == 1 and number == 5:
                raise KeyboardInterrupt
            yield sample
        self.calls += 1


def test_a_killed_run_goes_on_and_ends_the_same(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rm.evaluate.COMPARISONS_AT_ONCE", 2)
    root = write_comparisons(tmp_path / "data", 6)
    items, judge = read_judged(root), RewardModelJudge(reward_model)

    def run(scorer: PointwiseScorer, out: str) -> dict[str, Any]:
        return run_evaluation(scorer, items, data=root, out=tmp_path / out, min_margins=[0.5])

    whole = run(PointwiseScorer(judge, root), "whole")
    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(judge, root), "killed")
    assert len(_samples(tmp_path / "killed")) == 24 + 5
    assert run(PointwiseScorer(judge, root), "killed") == whole
    keys = [(sample["pair_id"], sample["dimension"]) for sample in _samples(tmp_path / "killed")]
    assert len(set(keys)) == len(keys) == 72
    again = run(PointwiseScorer(judge, root), "killed")
    assert again == whole
    assert (tmp_path / "killed/results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()


class OutOfReach(PointwiseScorer):
    """The server does not answer about every third pair, and says nonsense about the next."""

    def samples(self, items: Sequence[JudgedComparison]) -> Iterator[PairSample]:
        for number, sample in enumerate(super().samples(items)):
            lost = {"scores": None, "difference": None, "correct": None}
            status = ("api_error", "parse_error", None)[number % 3]
            yield sample if status is None else sample.model_copy(update={**lost, "status": status})


def test_a_judge_that_was_out_of_reach_is_asked_again_and_one_that_said_nonsense_is_not(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path / "data", 3)
    items, judge, out = read_judged(root), RewardModelJudge(reward_model), tmp_path / "run"

    def run(scorer: PointwiseScorer) -> dict[str, Any]:
        return run_evaluation(scorer, items, data=root, out=out)

    first = run(OutOfReach(judge, root))
    assert first["statuses"] == {"api_error": 12, "parse_error": 12, "ok": 12}
    assert run(OutOfReach(judge, root)) == first
    assert len(_samples(out)) == 36  # the same failure is no news
    second = run(PointwiseScorer(judge, root))
    assert second["statuses"] == {"ok": 24, "parse_error": 12}
    assert len(_samples(out)) == 36 + 12
    assert second["average"]["failed_wrong"]["micro"]["n"] == 36
    assert [(sample.status == "ok") for sample in read_samples(out)].count(True) == 24
    assert len(read_samples(out)) == 36


def test_an_unreadable_candidate_is_a_count_and_hurts_no_other_pair(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    picture = root / "images/0_1.png"
    picture.write_bytes(picture.read_bytes()[:50])
    scorer = PointwiseScorer(RewardModelJudge(reward_model), root)
    results = run_evaluation(scorer, read_judged(root), data=root, out=tmp_path / "run")
    assert results["statuses"] == {"unreadable_image": 2 * 4, "ok": 4 * 4}
    figures = results["dimensions"]["overall"]["all"]
    assert (figures["n"], figures["failures"]) == (4, 2)
    average = results["average"]
    assert average["failures"] == 8
    dropped, wrong = average["failed_dropped"]["micro"], average["failed_wrong"]["micro"]
    assert (dropped["n"], wrong["n"]) == (16, 24)
    assert wrong["value"] == pytest.approx(dropped["value"] * 16 / 24)
    failed = [sample for sample in _samples(tmp_path / "run") if sample["status"] != "ok"]
    assert {sample["pair_id"] for sample in failed} == {"c0-0:0-1", "c0-0:1-2"}
    assert all(sample["difference"] is None and sample["correct"] is None for sample in failed)
    assert all("0_1.png" in sample["reason"] for sample in failed)


def test_two_judges_are_compared_on_their_common_pairs(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path / "data", 8)
    evaluate(judge="always-first", data=str(root), out=str(tmp_path / "first"))
    scorer = PointwiseScorer(RewardModelJudge(reward_model), root)
    options: dict[str, Any] = {"data": root}
    results = run_evaluation(scorer, read_judged(root), out=tmp_path / "a", against=tmp_path / "first", **options)
    difference = results["against"]["strict"]["overall"]
    own = results["dimensions"]["overall"]["all"]["strict"]
    other = _results(tmp_path / "first")["dimensions"]["overall"]["all"]["strict"]
    assert difference["value"] == pytest.approx(own - other)
    assert difference["n"] == 24
    assert difference["ci_low"] <= difference["value"] <= difference["ci_high"]
    micro = [_results(tmp_path / run)["average"]["failed_dropped"]["micro"]["value"] for run in ("a", "first")]
    average = results["against"]["tie_rule"]["average"]
    assert (average["value"], average["n"]) == (pytest.approx(micro[0] - micro[1]), 24 * 4)
    elsewhere = write_comparisons(tmp_path / "elsewhere", 2, seed=9)
    evaluate(judge="random", data=str(elsewhere), out=str(tmp_path / "other"))
    with pytest.raises(UserError, match="same pairs"):
        run_evaluation(scorer, read_judged(root), out=tmp_path / "b", against=tmp_path / "other", **options)
    lines = _samples(tmp_path / "first")
    for key, value in (("group_id", "another"), ("label", 0)):
        changed = [{**line, key: value} for line in lines]
        (tmp_path / "first/samples.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in changed))
        with pytest.raises(UserError, match="same pairs"):
            run_evaluation(scorer, read_judged(root), out=tmp_path / "b", against=tmp_path / "first", **options)
    with pytest.raises(UserError, match="nowhere"):
        run_evaluation(scorer, read_judged(root), out=tmp_path / "b", against=tmp_path / "nowhere", **options)
    assert not (tmp_path / "b").exists()  # before a judge is asked that may take hours


def test_dimensions_that_the_judge_lacks_are_counted(
    base_folder: Path, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    judge = RewardModelJudge(RewardModel.from_base(base_folder, dimensions=["overall"]))
    scorer = PointwiseScorer(judge, root)
    results = run_evaluation(scorer, read_judged(root), data=root, out=tmp_path / "run")
    assert list(results["dimensions"]) == ["overall"]
    assert results["not_applicable"] == {"instruction_awareness": 6, "visual_consistency": 6, "visual_quality": 6}
    assert results["average"]["missing_dimensions"] == ["instruction_awareness", "visual_consistency", "visual_quality"]
    assert results["average"]["failed_dropped"]["micro"]["n"] == 6
    taste = RewardModelJudge(RewardModel.from_base(base_folder, dimensions=["taste"]))
    with pytest.raises(UserError, match="nothing to compare"):
        run_evaluation(PointwiseScorer(taste, root), read_judged(root), data=root, out=tmp_path / "no")


def test_a_folder_of_another_judge_is_refused(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    evaluate(judge="random", data=str(root), out=str(tmp_path / "run"))
    with pytest.raises(UserError, match="holds another run"):
        evaluate(judge="majority", data=str(root), out=str(tmp_path / "run"))


def test_figures_can_be_added_to_a_finished_run_and_the_judge_is_asked_nothing_again(
    base_folder: Path, write_comparisons: Write, tmp_path: Path
) -> None:
    RewardModel.from_base(base_folder, seed=2).save_pretrained(tmp_path / "model")
    root, run = write_comparisons(tmp_path / "data", 4), str(tmp_path / "run")
    evaluate(judge="always-first", data=str(root), out=str(tmp_path / "first"))
    evaluate(judge=str(tmp_path / "model"), data=str(root), out=run)
    samples, first = (tmp_path / "run/samples.jsonl").read_bytes(), _results(tmp_path / "run")
    root = root.rename(tmp_path / "moved")
    (tmp_path / "there").mkdir()
    (tmp_path / "model").rename(tmp_path / "there/model")
    moved: dict[str, Any] = {"judge": str(tmp_path / "there/model"), "base": str(base_folder), "data": str(root)}
    evaluate(**moved, out=run, against=str(tmp_path / "first"), min_margin=0.5)
    results = _results(tmp_path / "run")
    assert (tmp_path / "run/samples.jsonl").read_bytes() == samples
    assert results["against"]["run"] == results["settings"]["against"] == str(tmp_path / "first")
    assert results["dimensions"]["overall"]["margin>=0.5"]["n"] == 4
    assert results["dimensions"]["overall"]["all"] == first["dimensions"]["overall"]["all"]
    with pytest.raises(UserError, match="holds another run, which differs in seed"):
        evaluate(**moved, out=run, seed=1)
    with pytest.raises(UserError, match=r"holds another run, which differs in inputs\.data"):
        evaluate(**moved, out=run, limit=2)


def test_a_limit_takes_the_first_comparisons(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 4)
    evaluate(judge="random", data=str(root), out=str(tmp_path / "run"), limit=2)
    assert _results(tmp_path / "run")["num_comparisons"] == 2
    for limit in (0, -1):
        with pytest.raises(UserError, match="limit of at least 1"):
            evaluate(judge="random", data=str(root), out=str(tmp_path / "none"), limit=limit)


def test_comparisons_of_several_sources_can_be_left_out(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 4)
    comparisons = read_comparisons(root)
    several = [comparisons[0].model_copy(update={"references": comparisons[0].references * 2}), *comparisons[1:]]
    write_records(root / "comparisons.jsonl", several)
    assert [item.comparison.id for item in read_judged(root, max_references=1, limit=2)] == [
        comparison.id for comparison in comparisons[1:3]
    ]
    evaluate(judge="random", data=str(root), out=str(tmp_path / "run"), max_references=1)
    assert _results(tmp_path / "run")["num_comparisons"] == 3
    with pytest.raises(UserError, match="holds another run"):
        evaluate(judge="random", data=str(root), out=str(tmp_path / "run"))
    with pytest.raises(UserError, match="at most 0 references"):
        read_judged(root, max_references=0)


def test_baselines_stand_beside_every_judge(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 12)
    for judge in ("always-first", "random", "majority"):
        evaluate(judge=judge, data=str(root), out=str(tmp_path / judge))
    table = _results(tmp_path / "random")["baselines"]
    for judge, by_name in table.items():
        for name, figures in by_name.items():
            alone = _results(tmp_path / judge)["dimensions"][name]["all"]
            assert figures == {key: alone[key] for key in figures}


def test_a_judge_of_a_file_that_prefers_a_side_is_found_out(
    write_comparisons: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_comparisons(tmp_path / "data", 3)
    judge = tmp_path / "judge.yaml"
    judge.write_text(
        "class_path: rm.protocols.pairwise.PairwiseJudge\n"
        "init_args:\n"
        "  metrics: [overall]\n"
        "  vlm:\n"
        "    class_path: rm.vlm.scripted.ScriptedVLM\n"
        """    init_args: {rule: always_first, answers: ['{"winner": "A"}', '{"winner": "B"}']}\n"""
    )
    evaluate(judge=str(judge), data=str(root), out=str(tmp_path / "run"))
    results = _results(tmp_path / "run")
    assert results["swap_consistency"] == {"overall": {"n": 9, "share": 0.0}}
    assert results["dimensions"]["overall"]["all"]["tie_rate"] == 1.0
    assert "both orders agree on 0.000 of 9 pairs" in capsys.readouterr().out


def test_a_pointwise_judge_of_a_file_is_scored_like_any_other(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    judge = tmp_path / "judge.yaml"
    judge.write_text(
        "class_path: rm.protocols.rubric.RubricJudge\n"
        "init_args:\n"
        "  vlm: {class_path: rm.vlm.scripted.ScriptedVLM, init_args: {rule: always_yes}}\n"
    )
    evaluate(judge=str(judge), data=str(root), out=str(tmp_path / "run"))
    results = _results(tmp_path / "run")
    assert results["statuses"] == {"parse_error": 24}
    assert results["dimensions"]["overall"]["all"]["failures"] == 6


def test_mcnemar_stands_beside_the_paired_difference(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 8)
    evaluate(judge="always-first", data=str(root), out=str(tmp_path / "first"))
    evaluate(judge="random", data=str(root), out=str(tmp_path / "random"), against=str(tmp_path / "first"))
    row = _results(tmp_path / "random")["against"]["strict"]["overall"]
    test = row["mcnemar"]
    assert row["value"] == pytest.approx((test["only_second"] - test["only_first"]) / row["n"])
    assert 0 < test["p_value"] <= 1


def test_averages_and_tasks_stand_beside_the_dimensions(
    write_comparisons: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_comparisons(tmp_path / "data", 8)
    lines = [json.loads(line) for line in (root / "comparisons.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        line["task"] = None if number == 7 else "add" if number % 2 else "remove"
    (root / "comparisons.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    evaluate(judge="random", data=str(root), out=str(tmp_path / "run"))
    results, samples = _results(tmp_path / "run"), _samples(tmp_path / "run")
    micro = results["average"]["failed_dropped"]["micro"]
    assert micro["value"] == pytest.approx(sum(sample["correct"] for sample in samples) / len(samples))
    assert (micro["n"], micro["num_groups"]) == (8 * 3 * 4, 4)
    assert list(results["tasks"]) == ["remove", "add"]
    names = {line["id"]: line["task"] for line in lines}
    for task, count in (("remove", 4), ("add", 3)):
        right = [sample["correct"] for sample in samples if names[sample["comparison_id"]] == task]
        figures = results["tasks"][task]["failed_wrong"]["micro"]
        assert (figures["value"], figures["n"]) == (pytest.approx(sum(right) / len(right)), count * 3 * 4)
        assert results["dimensions"]["overall"][f"task={task}"]["n"] == count * 3
    baseline = results["baseline_averages"]["random"]
    assert baseline["failed_dropped"]["micro"] == pytest.approx(micro)
    printed = capsys.readouterr().out
    assert "task=remove" in printed
    assert "failed wrong" in printed


def test_a_task_without_pairs_in_a_dimension_keeps_its_name(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    lines = [json.loads(line) for line in (root / "comparisons.jsonl").read_text().splitlines()]
    for line, task, dimension in zip(lines, ("add", "style"), ("visual_consistency", "overall"), strict=True):
        line["task"] = task
        line["judgements"] = [judged for judged in line["judgements"] if judged["dimension"] == dimension]
    (root / "comparisons.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    evaluate(judge="random", data=str(root), out=str(tmp_path / "run"))
    tables = _results(tmp_path / "run")["dimensions"]
    assert {name: tables[name]["task=style"]["n"] for name in tables} == {"visual_consistency": 0, "overall": 3}
    assert tables["visual_consistency"]["task=style"]["strict"] is None


def test_a_judge_that_fails_on_every_pair_is_compared_with_nothing_and_still_counted(
    write_comparisons: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    evaluate(judge="random", data=str(root), out=str(tmp_path / "random"))
    judge = tmp_path / "judge.yaml"
    judge.write_text(
        "class_path: rm.protocols.rubric.RubricJudge\n"
        "init_args:\n"
        "  vlm: {class_path: rm.vlm.scripted.ScriptedVLM, init_args: {rule: always_yes}}\n"
    )
    evaluate(judge=str(judge), data=str(root), out=str(tmp_path / "run"), against=str(tmp_path / "random"))
    results = _results(tmp_path / "run")
    assert results["against"]["tie_rule"] == {"average": None, "dimensions": {}}
    assert results["average"]["failed_wrong"]["micro"]["value"] == 0
    assert "there is no pair that both this judge and the one of" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["rubric.RubricJudge", "pairwise.PairwiseJudge"])
def test_a_model_that_changes_behind_its_server_is_said(
    kind: str, write_comparisons: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    text = '{"score": 4}' if kind.startswith("rubric") else '{"winner": "A"}'

    def script(number: int, request: dict[str, Any]) -> Answer:
        version = "fp_a" if number < 2 else "fp_b"
        body = json.loads(completion(text)) | {"model": "m", "system_fingerprint": version}
        return Answer(body=json.dumps(body).encode())

    server, judge = ChatServer(script), tmp_path / "judge.yaml"
    try:
        judge.write_text(
            f"class_path: rm.protocols.{kind}\n"
            "init_args:\n"
            "  vlm:\n"
            "    class_path: rm.vlm.api.ApiVLM\n"
            f"    init_args: {{model: m, base_url: '{server.url}', max_concurrency: 1}}\n"
        )
        evaluate(judge=str(judge), data=str(root), out=str(tmp_path / "run"))
    finally:
        server.close()
    served = _results(tmp_path / "run")["served_by"]
    assert {name for names in served for name in names.split(", ")} == {"m fp_a", "m fp_b"}
    assert sum(served.values()) == len(_samples(tmp_path / "run"))
    assert "the model behind the judge changed" in capsys.readouterr().out
