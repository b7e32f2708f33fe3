from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.generators import FolderGenerator
from bench.validation import validate_cases
from data_build.editcompass.items import read_items
from data_build.editcompass.merging import Decision, merge_reviews
from data_build.editcompass.photos import Photo
from data_build.editcompass.proposals import propose_edits
from data_build.editcompass.sources import refine_scenarios
from data_build.puzzles.build import build_puzzles
from data_build.puzzles.verify import verify
from data_build.votes import LineProblem
from gnomon.datasets import read_cases, resolve, validate, write_records
from gnomon.errors import UserError
from gnomon.images import content_hash, load_image, save_png
from gnomon.jsonl import read_records
from gnomon.records import Case, Reference, Text
from tests.data_build.editcompass.test_reviews import review
from tests.data_build.editcompass.writers import Writer, noise


def by(names: str, item: str, **changes: Any) -> list[dict[str, Any]]:
    """One review of `item` by each of the people."""
    return [review(item, name, **changes) for name in names.split()]


def decisions(out: Path) -> dict[tuple[str, str], Decision]:
    return {(line.item, line.task): line for line in read_records(out / "decisions.jsonl", Decision)}


@pytest.fixture
def whole_cases(tmp_path: Path) -> Path:
    """Nine cases, c0 to c8, that are reviewed as wholes."""
    root = tmp_path / "items"
    cases = []
    for number in range(9):
        save_png(noise(number), root / f"images/{number}.png")
        cases.append(
            Case(
                id=f"c{number}",
                benchmark="edit-compass",
                task="action",
                instruction=Text(en="Let it jump.", zh="让它跳。"),
                references=[Reference(path=f"images/{number}.png")],
                metrics=["instruction_following"],
            )
        )
    write_records(root / "cases.jsonl", cases)
    return root


@pytest.fixture
def proposed(photos: Path, tmp_path: Path) -> Path:
    """Three photographs with three instructions each for the task add; those for remove failed."""
    out = tmp_path / "proposed"
    propose_edits(photos, out, [Writer("w", broken="Take away")], tasks=["add", "remove"])
    return out


def test_a_review_by_hand(whole_cases: Path, tmp_path: Path) -> None:
    (whole_cases / "images/8.png").write_bytes(b"no picture")
    lines = [
        *by("ann bob cy", "c0"),  # 1-3: all three approve
        *by("ann bob", "c1"),  # 4-5
        review("c1", "cy", safety=False, comment="a licence plate"),  # 6: one does not
        *by("ann bob", "c2"),  # 7-8: one is missing
        *by("ann bob cy", "c3"),  # 9-11
        review("c3", "cy", quality=False),  # 12: Cy changes his mind
        *by("ann bob", "c4"),  # 13-14
        review("c4", "Ann"),  # 15: Ann again, who is no third person
        *by("ann bob cy dee", "c5"),  # 16-19: four are more than enough
        review("c6", "ann", quality=False, suitability=False),  # 20: enough to know
        *by("ann bob cy", "c8"),  # 21-23: approved, but the file is broken
        *by("ann", "c9"),  # 24: there is no such item
    ]
    write_records(tmp_path / "reviews.jsonl", lines)
    out = tmp_path / "out"

    summary = merge_reviews([whole_cases], [tmp_path / "reviews.jsonl"], out, num_reviewers=3)
    made = {item: line for (item, _), line in decisions(out).items()}

    expected: dict[str, tuple[str, Sequence[int]]] = {
        "c0": ("approved", (1, 2, 3)),
        "c1": ("rejected", (4, 5, 6)),
        "c2": ("too_few_reviews", (7, 8)),
        "c3": ("contradictory_reviews", (9, 10, 11, 12)),
        "c4": ("too_few_reviews", (13, 14)),
        "c5": ("approved", (16, 17, 18, 19)),
        "c6": ("rejected", (20,)),
        "c7": ("too_few_reviews", ()),
        "c8": ("unreadable_picture", (21, 22, 23)),
    }
    file = tmp_path / "reviews.jsonl"
    assert {item: (line.reason, line.records) for item, line in made.items()} == {
        item: (reason, [f"{file}:{number}" for number in numbers]) for item, (reason, numbers) in expected.items()
    }
    assert [item for item, line in made.items() if line.kept] == ["c0", "c5"]
    assert [case.id for case in read_cases(out)] == ["c0", "c5"]
    assert (made["c1"].aspects, made["c6"].aspects) == (["safety"], ["quality", "suitability"])
    assert (made["c2"].detail, made["c3"].detail) == ("2 of 3 reviewers", "cy says two things")
    assert (made["c8"].detail or "").startswith(f"{whole_cases}/cases.jsonl:9: could not read the picture")
    problems = read_records(out / "problems.jsonl", LineProblem)
    assert [(problem.line, problem.kind) for problem in problems] == [
        (12, "contradictory"),
        (15, "repeated"),
        (24, "unknown_item"),
    ]
    assert (summary.num_items, summary.num_decisions, summary.num_kept) == (9, 9, 2)
    assert summary.reasons == dict(Counter(reason for reason, _ in expected.values()))
    assert summary.rejected_aspects == {"safety": 1, "quality": 1, "suitability": 1}
    assert summary.problems == {"contradictory": 1, "repeated": 1, "unknown_item": 1}


def test_an_instruction_is_taken_for_each_photograph_and_task(proposed: Path, photos: Path, tmp_path: Path) -> None:
    a, b, c = (photo.id for photo in read_records(proposed / "photos.jsonl", Photo))
    reviews, selections, out = tmp_path / "reviews.jsonl", tmp_path / "selections.jsonl", tmp_path / "out"
    write_records(reviews, [*by("ann bob", a), *by("ann bob", b), *by("ann", c), review(c, "bob", suitability=False)])
    taken = [
        {"item": a, "task": "add", "proposal": f"{a}/add/w/2", "by": "ann"},
        {"item": a, "task": "add", "proposal": f"{a}/add/w/2", "by": "bob"},
        {"item": b, "task": "add", "proposal": f"{b}/add/w/1", "by": "ann"},
        {"item": b, "task": "add", "proposal": f"{b}/add/w/3", "by": "bob"},
        {"item": a, "task": "remove", "proposal": f"{a}/remove/w/1", "by": "ann"},  # 5: failed
        {"item": a, "task": "add", "proposal": f"{b}/add/w/1", "by": "cy"},  # 6: another photograph's
        {"item": a, "task": "replace", "proposal": f"{a}/add/w/1", "by": "cy"},  # 7: a task that was not asked for
        {"item": "nobody", "task": "add", "proposal": f"{a}/add/w/1", "by": "cy"},  # 8
        {"item": c, "task": "add", "proposal": f"{c}/add/w/1", "by": "ann"},  # 9: of a photograph that is rejected
    ]
    write_records(selections, taken)

    summary = merge_reviews([proposed], [reviews], out, selections=[selections], num_reviewers=2)
    made = decisions(out)

    assert {key: line.reason for key, line in made.items()} == {
        (a, "add"): "approved",
        (a, "remove"): "no_proposal",
        (b, "add"): "contradictory_selections",
        (b, "remove"): "no_proposal",
        (c, "add"): "rejected",
        (c, "remove"): "rejected",
    }
    assert made[a, "add"].records == [f"{reviews}:1", f"{reviews}:2", f"{selections}:1", f"{selections}:2"]
    assert made[b, "add"].records == [f"{reviews}:3", f"{reviews}:4", f"{selections}:3", f"{selections}:4"]
    problems = read_records(out / "problems.jsonl", LineProblem)
    assert [(problem.line, problem.kind) for problem in problems] == [
        (5, "unknown_proposal"),
        (6, "unknown_proposal"),
        (7, "unknown_item"),
        (8, "unknown_item"),
    ]
    assert "holds no instruction: parse_error" in problems[0].message
    assert (summary.num_items, summary.num_kept) == (3, 1)
    (case,) = read_cases(out)
    assert (case.id, case.task, case.split) == (f"add-{a}", "add", "test")
    assert case.meta == {"photo": "a.png", "proposal": f"{a}/add/w/2"}
    assert case.instruction.en is not None
    assert case.instruction.en.endswith("number 1.")
    assert content_hash(resolve(out, case.references[0].path)) == content_hash(photos / "a.png")


def test_without_a_selection_no_photograph_becomes_a_case(proposed: Path, tmp_path: Path) -> None:
    ids = [photo.id for photo in read_records(proposed / "photos.jsonl", Photo)]
    write_records(tmp_path / "reviews.jsonl", [line for item in ids for line in by("ann", item)])

    summary = merge_reviews([proposed], [tmp_path / "reviews.jsonl"], tmp_path / "out", num_reviewers=1)

    assert summary.reasons == {"no_selection": 3, "no_proposal": 3}


def test_a_selection_for_a_whole_case_is_refused(whole_cases: Path, tmp_path: Path) -> None:
    write_records(tmp_path / "reviews.jsonl", by("ann", "c0"))
    write_records(tmp_path / "selections.jsonl", [{"item": "c0", "task": "action", "proposal": "p", "by": "ann"}])

    summary = merge_reviews(
        [whole_cases],
        [tmp_path / "reviews.jsonl"],
        tmp_path / "out",
        selections=[tmp_path / "selections.jsonl"],
        num_reviewers=1,
    )

    assert (summary.num_kept, summary.problems) == (1, {"unknown_proposal": 1})


VOTE = st.tuples(st.sampled_from(["c0", "c1"]), st.sampled_from(["ann", "bob", "cy"]), st.booleans())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VOTE, max_size=10), st.integers(1, 3), st.randoms())
def test_kept_is_what_enough_people_approve_of_and_nobody_else_speaks_against(
    whole_cases: Path,
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[str, str, bool]],
    num: int,
    rng: Any,
) -> None:
    tmp_path = tmp_path_factory.mktemp("votes")
    kept = []
    for number, order in enumerate((lines, rng.sample(lines, len(lines)))):
        write_records(tmp_path / f"{number}.jsonl", [review(item, name, quality=good) for item, name, good in order])
        merge_reviews([whole_cases], [tmp_path / f"{number}.jsonl"], tmp_path / str(number), num_reviewers=num)
        kept.append({line.item for line in decisions(tmp_path / str(number)).values() if line.kept})

    people = {
        item: [{good for *key, good in lines if key == [item, name]} for name in ("ann", "bob", "cy")]
        for item in ("c0", "c1")
    }
    expected = {
        item
        for item, said in people.items()
        if all(answers in (set(), {True}) for answers in said) and sum(map(bool, said)) >= num
    }
    assert kept == [expected, expected]


def test_all_three_strategies_make_one_valid_benchmark(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    propose_edits(photos, tmp_path / "photos-out", [Writer()], tasks=["add", "complex_instruction"], num=1)
    scenarios = [
        {
            "id": task,
            "task": task,
            "description": ["a", "b"] if task == "virtual_try_on" else "a",
            "instruction": {"en": "Do it.", "zh": "做吧。"},
        }
        for task in ("movement", "temporal", "virtual_try_on")
    ]
    write_records(tmp_path / "scenarios.jsonl", scenarios)
    for seed, name in enumerate(("movement", "temporal", "virtual_try_on_1", "virtual_try_on_2")):
        save_png(noise(50 + seed), tmp_path / "pictures" / f"{name}.png")
    generator = FolderGenerator(tmp_path / "pictures")
    refine_scenarios(tmp_path / "scenarios.jsonl", tmp_path / "scenarios-out", Writer(), generator)
    build_puzzles(tmp_path / "avr", tasks=["maximum_bonus"], num=1, seed=0, resolution=128)
    folders = [tmp_path / "photos-out", tmp_path / "scenarios-out", tmp_path / "avr"]
    items = read_items(folders)
    write_records(tmp_path / "reviews.jsonl", [line for item in items for line in by("ann bob cy dee eve", item)])
    chosen = [
        {"item": item.id, "task": option.task, "proposal": next(iter(option.proposals)), "by": "ann"}
        for item in items.values()
        for option in item.options
        if option.fixed is None
    ]
    write_records(tmp_path / "selections.jsonl", chosen)

    summary = merge_reviews(
        folders, [tmp_path / "reviews.jsonl"], out, selections=[tmp_path / "selections.jsonl"], split="train"
    )

    assert (summary.num_items, summary.num_kept, summary.reasons) == (7, 10, {"approved": 10})
    assert validate(out).ok
    cases = read_cases(out)
    assert {case.split for case in cases} == {"train"}
    assert validate_cases(out).ok, str(validate_cases(out))
    (puzzle,) = [case for case in cases if case.task == "maximum_bonus"]
    source, target = (load_image(resolve(out, path)) for path in (puzzle.references[0].path, puzzle.meta["target"]))
    assert verify(puzzle, source, target).value == "correct"


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    tmp_path: Path,
    contents: Callable[[Path], dict[str, bytes]],
    kill_when: Callable[[str, Callable[[], bool]], None],
) -> None:
    cases = []
    for number in range(40):
        save_png(noise(number, size=300), tmp_path / f"items/images/{number}.png")
        cases.append(
            Case(
                id=str(number),
                benchmark="edit-compass",
                task="action",
                instruction=Text(en="x"),
                references=[Reference(path=f"images/{number}.png")],
            )
        )
    write_records(tmp_path / "items/cases.jsonl", cases)
    reviews = tmp_path / "reviews.jsonl"
    write_records(reviews, [line for number in range(40) for line in by("ann bob", str(number))])
    out, whole = tmp_path / "out", tmp_path / "whole"
    arguments = f"[{str(tmp_path / 'items')!r}], [{str(reviews)!r}], {str(out)!r}, num_reviewers=2"
    program = f"from data_build.editcompass.merging import merge_reviews; merge_reviews({arguments})"

    kill_when(program, lambda: len(list(out.glob("images/*.png"))) >= 3)
    assert not (out / "cases.jsonl").exists()

    for folder in (out, whole):
        merge_reviews([tmp_path / "items"], [reviews], folder, num_reviewers=2)
    assert contents(out) == contents(whole)
    assert validate(out).records == {"cases.jsonl": 40}


def test_folders_that_cannot_be_merged_are_named(whole_cases: Path, proposed: Path, tmp_path: Path) -> None:
    reviews, out = tmp_path / "reviews.jsonl", tmp_path / "out"
    write_records(reviews, by("ann", "c0"))
    shutil.copytree(whole_cases, tmp_path / "copy")
    manifest = proposed / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"status": "finished"', '"status": "interrupted"'))
    foreign = Case(id="x", benchmark="tabletop", task="add", instruction=Text(en="x"))
    write_records(tmp_path / "foreign" / "cases.jsonl", [foreign])

    for folders, words in (
        ([whole_cases, tmp_path / "copy"], "item 'c0' of .*copy is also in .*items"),
        ([proposed], r"not finished \(interrupted\); run its command again"),
        ([tmp_path], "a folder with photos.jsonl or cases.jsonl"),
        ([tmp_path / "foreign"], r"cases\.jsonl:1: expected a case of edit-compass, got one of 'tabletop'"),
        ([], "there are none"),
    ):
        with pytest.raises(UserError, match=words):
            merge_reviews(folders, [reviews], out)
    with pytest.raises(UserError, match="num_reviewers >= 1, got 0"):
        merge_reviews([whole_cases], [reviews], out, num_reviewers=0)
    assert not out.exists()


def test_other_reviews_are_another_merge(whole_cases: Path, tmp_path: Path) -> None:
    reviews, out = tmp_path / "reviews.jsonl", tmp_path / "out"
    write_records(reviews, by("ann", "c0"))
    merge_reviews([whole_cases], [reviews], out, num_reviewers=1)
    write_records(reviews, by("ann bob", "c0"))

    with pytest.raises(UserError, match=r"inputs\.reviews and selections"):
        merge_reviews([whole_cases], [reviews], out, num_reviewers=1)


def test_a_picture_that_cannot_be_written_stops_the_merge_and_is_no_decision(whole_cases: Path, tmp_path: Path) -> None:
    reviews, out = tmp_path / "reviews.jsonl", tmp_path / "out"
    write_records(reviews, by("ann", "c8"))
    (whole_cases / "images/8.png").unlink()
    summary = merge_reviews([whole_cases], [reviews], out, num_reviewers=1)
    assert summary.reasons == {"too_few_reviews": 8, "unreadable_picture": 1}

    save_png(noise(8), whole_cases / "images/8.png")
    (out / "images").write_text("in the way")
    with pytest.raises(UserError, match="could not write"):
        merge_reviews([whole_cases], [reviews], out, num_reviewers=1)

    (out / "images").unlink()
    assert merge_reviews([whole_cases], [reviews], out, num_reviewers=1).num_kept == 1
