from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.mdmr.cases import ENTITIES
from data_build.mdmr import index
from data_build.mdmr.buckets import ReferenceRule
from data_build.mdmr.candidates import NONE, read_candidates
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.narrowing import narrow
from data_build.mdmr.tables import read_table, write_table
from data_build.mdmr.tags import CATEGORIES, FACINGS, FRAMINGS, TAG_ATTRIBUTES, TEXT_LANGUAGES
from gnomon.errors import UserError
from tests.data_build.mdmr.pictures import tags
from tests.data_build.mdmr.tables import candidates

NAMES = ("Tabby cat", "tabby cat", "oak", "cup")


@st.composite
def some_tags(draw: st.DrawFn) -> dict[str, Any]:
    entity = st.tuples(st.sampled_from(ENTITIES), st.sampled_from(NAMES))
    attributes = st.dictionaries(st.sampled_from(TAG_ATTRIBUTES[:3]), st.sampled_from(("red", "Red", "old")))

    def maybe(words: tuple[str, ...]) -> st.SearchStrategy[str | None]:
        return st.none() | st.sampled_from(words)

    return tags(
        draw(st.sampled_from(CATEGORIES[:3])),
        *draw(st.lists(entity, max_size=3)),
        attributes=draw(attributes),
        num_people=draw(st.integers(0, 3)),
        age=draw(st.none() | st.integers(0, 90)),
        framing=draw(maybe(FRAMINGS[:2])),
        facing=draw(maybe(FACINGS[:2])),
        text_language=draw(maybe(TEXT_LANGUAGES[:2])),
        side=draw(st.integers(50, 150)),
    )


@st.composite
def some_rule(draw: st.DrawFn) -> dict[str, Any]:
    def words(known: tuple[str, ...], keys: tuple[str, ...] = ("any_of", "none_of")) -> st.SearchStrategy[Any]:
        some = st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True)
        return st.none() | st.dictionaries(st.sampled_from(keys), some, min_size=1)

    limits = st.none() | st.tuples(st.integers(0, 40), st.integers(0, 110)).map(
        lambda pair: {"min": pair[0], "max": pair[0] + pair[1]}
    )
    some = st.lists(st.sampled_from(TAG_ATTRIBUTES[:3]), max_size=1)
    return {
        "role": draw(st.sampled_from(("person", "scene", "target"))),
        "category": draw(words(CATEGORIES[:4])),
        "entities": draw(words(ENTITIES, ("any_of", "all_of", "none_of"))),
        "names": draw(words(("TABBY CAT", "oak", "elm"))),
        "has": draw(some),
        "lacks": draw(some),
        "framing": draw(words(FRAMINGS)),
        "facing": draw(words(FACINGS)),
        "text_language": draw(words(TEXT_LANGUAGES)),
        **{name: draw(limits) for name in ("num_entities", "num_people", "age", "side")},
    }


def fits(rule: dict[str, Any], row: dict[str, Any]) -> bool:
    """What the rule says, read word by word for one picture."""
    kinds = {entity["kind"] for entity in row["entities"]}
    names = {entity["name"].lower() for entity in row["entities"]}
    numbers = {**row, "num_entities": len(row["entities"])}
    checks = [rule["role"] not in ENTITIES or rule["role"] in kinds]
    for column in ("category", "framing", "facing", "text_language"):
        words = rule[column] or {}
        checks.append("any_of" not in words or row[column] in words["any_of"])
        checks.append(row[column] not in words.get("none_of", []))
    entities, called = rule["entities"] or {}, rule["names"] or {}
    checks.append("any_of" not in entities or bool(kinds & set(entities["any_of"])))
    checks.append(set(entities.get("all_of", [])) <= kinds)
    checks.append(not kinds & set(entities.get("none_of", [])))
    checks.append("any_of" not in called or bool(names & {name.lower() for name in called["any_of"]}))
    checks.append(not names & {name.lower() for name in called.get("none_of", [])})
    checks += [attribute in row["attributes"] for attribute in rule["has"]]
    checks += [attribute not in row["attributes"] for attribute in rule["lacks"]]
    for column in ("num_entities", "num_people", "age", "side"):
        limits, number = rule[column], numbers[column]
        checks.append(limits is None or (number is not None and limits["min"] <= number <= limits["max"]))
    return all(checks)


@given(st.lists(some_tags(), min_size=1, max_size=12), st.lists(some_rule(), min_size=1, max_size=6))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arrays_say_what_the_rule_says_of_each_picture(
    tmp_path: Path, rows: list[dict[str, Any]], rules: list[dict[str, Any]]
) -> None:
    pictures = candidates(tmp_path, rows)
    for rule in rules:
        mask, steps = narrow(pictures, ReferenceRule.model_validate(rule))

        assert mask.tolist() == [fits(rule, row) for row in rows]
        lefts = [step.left for step in steps]
        assert lefts == sorted(lefts, reverse=True)
        assert (lefts[0], lefts[-1]) == (len(rows), int(mask.sum()))


def test_each_constraint_is_named_with_what_it_leaves(tmp_path: Path) -> None:
    rows = [tags("people", ("person", "man"), num_people=1, age=age) for age in (5, 30, 70)] + [tags("scenes")]
    rule = ReferenceRule.model_validate(
        {"role": "person", "category": {"any_of": ["people"]}, "age": {"min": 18}, "lacks": ["hair"]}
    )

    _, steps = narrow(candidates(tmp_path, rows), rule)

    assert [(step.constraint, step.left) for step in steps] == [
        ("tagged pictures", 4),
        ("an entity of kind person", 3),
        ("category any of people", 3),
        ("lacks hair", 3),
        ("age >= 18", 2),
    ]


def test_names_in_upper_and_lower_case_are_one_and_the_first_of_a_kind_counts(tmp_path: Path) -> None:
    rows = [
        tags("animals", ("object", "sofa"), ("animal", "Tabby Cat"), ("animal", "dog")),
        tags("animals", ("animal", "tabby cat")),
        tags("scenes"),
    ]
    pictures = candidates(tmp_path, rows)

    animals = pictures.name_codes("animal")
    assert animals[0] == animals[1] != NONE
    assert [pictures.names[code] for code in animals[:2]] == ["tabby cat", "tabby cat"]
    assert animals[2] == pictures.name_codes("target")[2] == NONE
    assert pictures.names[pictures.name_codes("target")[0]] == "sofa"


def test_tags_of_pictures_that_left_the_gallery_are_left_out(tmp_path: Path) -> None:
    candidates(tmp_path, [tags("animals"), tags("scenes"), tags("people", num_people=1)])
    build = BuildFolder(tmp_path)

    rows = read_table(build.gallery).to_pylist()
    write_table(build.gallery, index.COLUMNS, [rows[2], rows[0]])

    pictures = read_candidates(build)
    assert [pictures.image(row) for row in range(len(pictures))] == [rows[0]["id"], rows[2]["id"]]
    assert [pictures.word("category", row) for row in range(2)] == ["animals", "people"]
    assert np.array_equal(pictures.side, [100, 100])


def test_a_synthetic_picture_belongs_to_its_real_one(tmp_path: Path) -> None:
    pictures = candidates(tmp_path, [tags(), tags(made_from=0), tags(made_from=9)])

    assert pictures.root.tolist() == [0, 0, 2]
    assert pictures.synthetic.tolist() == [False, True, True]


@pytest.mark.parametrize("missing", ["gallery", "annotate"])
def test_a_stage_that_did_not_run_is_named(tmp_path: Path, missing: str) -> None:

    candidates(tmp_path, [tags()])
    build = BuildFolder(tmp_path)
    (build.gallery if missing == "gallery" else build.tags).unlink()

    with pytest.raises(UserError, match=f"--stage {missing}"):
        read_candidates(build)
