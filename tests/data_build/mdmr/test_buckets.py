from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.mdmr.cases import FAMILIES
from data_build.mdmr.buckets import Bucket, read_buckets
from gnomon.errors import UserError

FILE = """
family: entity_fusion
buckets:
  - name: two-animals
    subtask: animals
    samples: 10
    references:
      - {role: animal, count: 2, num_people: {max: 0}}
    relations:
      - {different: name}
"""


def write(folder: Path, text: str, name: str = "some.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def shipped(repository: Path) -> list[Bucket]:
    return read_buckets([repository / "configs" / "data" / "mdmr"])


def test_every_subtask_of_every_family_has_buckets(shipped: list[Bucket], repository: Path) -> None:
    covered = {(bucket.family, bucket.subtask) for bucket in shipped}

    assert covered == {(family, subtask) for family, known in FAMILIES.items() for subtask in known}
    names = {path.stem for path in (repository / "configs" / "data" / "mdmr").glob("*.yaml")}
    assert names == set(FAMILIES)


def test_the_families_have_the_papers_sizes(shipped: list[Bucket]) -> None:
    sizes: Counter[str] = Counter()
    for bucket in shipped:
        sizes[bucket.family] += bucket.samples

    # 93 of visual reasoning in the paper: ten buckets hold at least 10 each.
    assert sizes == {
        "entity_fusion": 936,
        "attribute_transfer": 982,
        "multi_element_extraction": 101,
        "infographic_manipulation": 278,
        "visual_reasoning": 100,
    }
    assert all(10 <= bucket.samples <= 50 for bucket in shipped)


def test_infographics_are_in_two_languages(shipped: list[Bucket]) -> None:
    sizes: Counter[str] = Counter()
    for bucket in shipped:
        if bucket.family == "infographic_manipulation":
            language = bucket.slots[0].text_language
            assert language is not None
            sizes[language.any_of[0]] += bucket.samples

    assert sizes == {"zh": 155, "en": 123}


def test_numbers_of_references_are_the_papers(shipped: list[Bucket]) -> None:
    numbers: dict[str, set[int]] = {}
    for bucket in shipped:
        kind = bucket.subtask.split("_")[0] if bucket.family == "visual_reasoning" else bucket.family
        numbers.setdefault(kind, set()).add(len(bucket.slots))

    assert numbers == {
        "entity_fusion": {2, 3, 4},
        "attribute_transfer": {2, 3, 4},
        "multi_element_extraction": {1},
        "infographic_manipulation": {2},
        "analogical": {3},
        "logical": {2},
    }


def test_a_rule_counts_for_several_references(tmp_path: Path) -> None:
    (bucket,) = read_buckets([write(tmp_path, FILE)])

    assert [rule.role for rule in bucket.slots] == ["animal", "animal"]
    assert bucket.places(bucket.relations[0]) == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "num_people: {max: 0}",
            "num_peple: {max: 0}",
            "unknown key 'references.0.num_peple' (did you mean 'num_people'?)",
        ),
        ("{max: 0}", "{most: 0}", "unknown key 'references.0.num_people.most'"),
        ("{max: 0}", "{}", "expected min or max, got neither"),
        ("{max: 0}", "{min: 3, max: 1}", "expected min <= max, got 3 and 1"),
        ("role: animal", "role: animals", "got 'animals' (did you mean 'animal'?)"),
        ("subtask: animals", "subtask: animal", "got 'animal' (did you mean 'animals'?)"),
        ("samples: 10", "samples: 9", "samples: Input should be greater than or equal to 10, got 9"),
        ("samples: 10", "samples: 51", "less than or equal to 50"),
        ("count: 2", "count: 5", "references.0.count"),
        (
            "- {role: animal, count: 2",
            "- {role: person, count: 3}\n      - {role: animal, count: 2",
            "at most 4 references, got 5",
        ),
        ("different: name", "different: names", "relations.0.different"),
        ("different: name", "different: name, same: category", "expected exactly one of same and different"),
        ("different: name", "different: name, references: [1, 3]", "different references out of 1..2"),
        ("different: name", "different: name, references: [1]", "at least two"),
        ("num_people: {max: 0}", "category: {any_of: [cats]}", "references.0.category.any_of.0"),
        ("num_people: {max: 0}", "category: {}", "expected any_of or none_of, got neither"),
        ("num_people: {max: 0}", "has: [fur]", "references.0.has.0"),
        ("name: two-animals", "name: Two animals", "name: String should match pattern"),
    ],
)
def test_mistakes_name_file_bucket_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = write(tmp_path, FILE.replace(old, new, 1))

    with pytest.raises(UserError) as error:
        read_buckets([file])
    assert message in str(error.value)
    assert str(error.value).startswith(f"{file}: buckets.0 (")


def test_files_that_hold_no_buckets_are_errors(tmp_path: Path) -> None:
    for text, message in [
        ("family: [", "expected a YAML file"),
        ("family: entity_fusion", "expected the keys family and buckets"),
        (FILE.replace("entity_fusion", "fusion"), "family: expected one of"),
        ("family: entity_fusion\nbuckets: 3", "expected a list of buckets"),
        ("family: entity_fusion\nbuckets: []", "found none"),
    ]:
        with pytest.raises(UserError, match=message):
            read_buckets([write(tmp_path, text)])
    with pytest.raises(UserError, match="expected a YAML file of buckets"):
        read_buckets([tmp_path / "nowhere.yaml"])


def test_a_name_is_one_buckets_alone(tmp_path: Path) -> None:
    first, second = write(tmp_path, FILE, "a.yaml"), write(tmp_path, FILE, "b.yaml")

    with pytest.raises(UserError, match=r"b\.yaml: the bucket 'two-animals' is already in .*a\.yaml"):
        read_buckets([first, second])


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    write(tmp_path, FILE, "b.yaml")
    write(tmp_path, FILE.replace("two-animals", "other"), "a.yaml")

    assert [bucket.name for bucket in read_buckets([tmp_path])] == ["other", "two-animals"]
