"""The questions of a scene, and those whose answer is no."""

from __future__ import annotations

from bench.cogcanvas.cases import Binding, Interaction, Position
from data_build.cogcanvas.questions import Asked, questions_of
from gnomon.records import Reference

REFERENCES = [
    Reference(
        path="a", role="identity", name="Ann", attributes={"age": "child", "hair": "red curls", "outfit": "grey suit"}
    ),
    Reference(
        path="b",
        role="identity",
        name="Bob",
        attributes={"hair": "black braid", "headwear": "green cap", "outfit": "Grey coat"},
    ),
    Reference(path="c", role="identity", name="Cy", attributes={"hair": "red braid", "outfit": "green coat"}),
    Reference(
        path="d", role="object", name="kite", attributes={"color": "blue {striped}", "size_category": "small_handheld"}
    ),
    Reference(path="e", role="fashion", name="gown", attributes={"material": "silk"}),
    Reference(path="f", role="background", name="Old Harbour", attributes={"scene_type": "harbour"}),
]
BINDINGS = [
    Binding(item="kite", person="Cy", interaction="holding"),
    Binding(item="gown", person="Ann", interaction="wearing"),
]
INTERACTIONS = [
    Interaction(first="Ann", second="Bob", action="hugging"),
    Interaction(first="Bob", second="Cy", action="pushing", is_mutual=False),
]
POSITIONS = [
    Position(first="Ann", relation="left_of", second="Bob"),
    Position(first="Cy", relation="in_front_of", second="Bob"),
]
SEEN = ", as the picture shows it?"
ASKED = Asked(REFERENCES, BINDINGS, INTERACTIONS, POSITIONS)


def texts(asked: Asked, *, negated: bool = False, expected: bool = True) -> dict[str, str]:
    questions = questions_of(asked, negated=negated)
    return {one.id: one.text.get("en") for one in questions if one.expected is expected}


def test_there_is_one_for_each_subject_and_attribute_binding_interaction_and_position() -> None:
    assert texts(ASKED) == {
        "attribute-1-hair": "Does the person in reference 1 (Ann) have red curls?",
        "attribute-2-hair": "Does the person in reference 2 (Bob) have black braid?",
        "attribute-2-headwear": "Does the person in reference 2 (Bob) wear green cap?",
        "attribute-2-outfit": "Does the person in reference 2 (Bob) wear this outfit, Grey coat?",
        "attribute-3-hair": "Does the person in reference 3 (Cy) have red braid?",
        "attribute-3-outfit": "Does the person in reference 3 (Cy) wear this outfit, green coat?",
        "attribute-4-color": "Does the item in reference 4 (kite) have the color blue {striped}?",
        "attribute-5-material": "Is the item in reference 5 (gown) made of silk?",
        "binding-1": "Is the person in reference 3 (Cy) holding the item in reference 4 (kite)?",
        "binding-2": "Is the person in reference 1 (Ann) wearing the item in reference 5 (gown)?",
        "interaction-1": "Is the person in reference 1 (Ann) hugging the person in reference 2 (Bob)?",
        "interaction-2": "Is the person in reference 2 (Bob) pushing the person in reference 3 (Cy)?",
        "position-1": f"Is the person in reference 1 (Ann) to the left of the person in reference 2 (Bob){SEEN}",
        "position-2": f"Is the person in reference 3 (Cy) in front of the person in reference 2 (Bob){SEEN}",
    }


def test_who_wears_a_reference_is_not_asked_for_what_they_wore_before() -> None:
    assert "attribute-1-outfit" not in texts(ASKED)
    without = Asked(REFERENCES, BINDINGS[:1], INTERACTIONS, POSITIONS)
    assert texts(without)["attribute-1-outfit"] == "Does the person in reference 1 (Ann) wear this outfit, grey suit?"


def test_negated_ones_ask_for_what_must_not_be() -> None:
    found = texts(ASKED, negated=True, expected=False)
    assert found == {
        # Ann wears a gown by now; Bob's and Cy's outfits are both coats, and that may be one coat.
        "binding-1-not": "Is the person in reference 1 (Ann) holding the item in reference 4 (kite)?",
        "binding-2-not": "Is the person in reference 2 (Bob) wearing the item in reference 5 (gown)?",
        "position-1-not": f"Is the person in reference 1 (Ann) to the right of the person in reference 2 (Bob){SEEN}",
        "position-2-not": f"Is the person in reference 3 (Cy) behind the person in reference 2 (Bob){SEEN}",
    }
    assert texts(ASKED, negated=True) == texts(ASKED)


def test_an_outfit_of_other_words_is_asked_of_the_other_person() -> None:
    without = Asked(REFERENCES, BINDINGS[:1], [], [])
    found = texts(without, negated=True, expected=False)
    assert found["attribute-1-outfit-not"] == "Does the person in reference 1 (Ann) wear this outfit, green coat?"
    assert found["attribute-3-outfit-not"] == "Does the person in reference 3 (Cy) wear this outfit, grey suit?"
    assert "attribute-2-outfit-not" not in found  # both others share a word with it


def test_what_anybody_may_do_as_well_has_no_negated_question() -> None:
    looking = Asked(REFERENCES, [Binding(item="kite", person="Cy", interaction="looking at")], [], [])
    assert "binding-1-not" not in texts(looking, negated=True, expected=False)


def test_from_words_alone_only_what_the_prompt_says_is_asked_by_name() -> None:
    prompt = "Ann with red curls meets Bob. Cy is holding the kite."
    assert texts(Asked(REFERENCES, BINDINGS[:1], [], [], prompt=prompt)) == {
        "attribute-1-hair": "Does Ann have red curls?",
        "binding-1": "Is Cy holding kite?",
    }


def test_each_question_says_whom_it_is_about() -> None:
    about = {one.id: one.about for one in questions_of(ASKED, negated=True)}
    assert about["binding-1"] == ["Cy", "kite"]
    assert about["binding-1-not"] == ["Ann", "kite"]
    assert about["attribute-4-color"] == ["kite"]
    assert about["interaction-2"] == ["Bob", "Cy"]
    assert len(about) == len(questions_of(ASKED, negated=True))
