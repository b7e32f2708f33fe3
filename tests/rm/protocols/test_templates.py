"""Our own texts: complete in both languages, shipped with the package, and filled without leftovers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gnomon.errors import UserError
from rm.pairs import DIMENSIONS
from rm.protocols import templates
from rm.protocols.templates import compose, load_aspects, load_form, load_rubric, metrics, quoted, text_hash

FORMS = ("rubric", "expected_score", "score_list", "checklist", "yes_no", "pairwise")
TEXT_ONLY = ("checklist_text_only", "yes_no_text_only")


def test_every_dimension_has_a_rubric() -> None:
    assert metrics() == tuple(sorted(DIMENSIONS))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_texts_are_complete(language: str) -> None:
    for metric in metrics():
        assert set(load_rubric(metric, language)) == {"question", "look", "low", "middle", "high"}
        assert set(load_aspects(metric, language)) == {"first", "second"}
    for form in FORMS:
        texts = load_form(form, language)
        assert set(texts) - {"reference", "candidate"} == {"system", "user"}
        assert all(texts["user"].count(place) == 1 for place in ("{references}", "{instruction}", "{candidate}"))
    for form in TEXT_ONLY:
        texts = load_form(form, language)
        assert all(texts["user"].count(place) == 1 for place in ("{instruction}", "{question}"))
        assert "{references}" not in texts["user"]
        assert "{candidate}" not in texts["user"]
    forms = (*FORMS, *TEXT_ONLY)
    assert len({text_hash(load_form(form, language), {}) for form in forms}) == len(forms)


@given(st.text())
def test_foreign_text_cannot_leave_its_quotation_marks(text: str) -> None:
    assert json.loads(quoted(text)) == text
    assert "\n" not in quoted(text)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_any_number_of_references_is_shown_in_order(count: int) -> None:
    sources = [Image.new("RGB", (4, 4), (number, 0, 0)) for number in range(count)]
    candidate = Image.new("RGB", (4, 4), (9, 9, 9))
    values = {"instruction": quoted("{candidate} and {question}"), "question": quoted("why?")}
    talk = compose(
        load_form("checklist", "en"), language="en", references=sources, candidates=[candidate], values=values
    )
    assert [part for part in talk[1].content if not isinstance(part, str)] == [*sources, candidate]
    # What a foreign text has in braces is not filled in.
    assert '"{candidate} and {question}"' in "".join(part for part in talk[1].content if isinstance(part, str))
    assert not any(
        isinstance(a, str) and isinstance(b, str) for a, b in zip(talk[1].content, talk[1].content[1:], strict=False)
    )


def test_an_unknown_language_or_metric_is_named() -> None:
    with pytest.raises(UserError, match="'fr'"):
        load_form("rubric", "fr")
    with pytest.raises(UserError, match="'taste'"):
        load_rubric("taste", "en")


def test_the_hash_of_the_words_follows_the_captions_of_the_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    form = load_form("rubric", "en")
    before = text_hash(form, {})
    monkeypatch.setitem(templates._CAPTIONS, "en", {**templates._CAPTIONS["en"], "one": "Result"})
    assert text_hash(form, {}) != before
