from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from data_build.mdmr.asking import PROBES, ask_blindly
from data_build.mdmr.blind import BlindQuestion, ask_all_blindly
from data_build.mdmr.replies import DraftQuestion
from data_build.mdmr.settings import BlindSettings
from gnomon.errors import UserError
from gnomon.records import Text
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply
from rm.vlm.scripted import ScriptedVLM, prompt_text
from tests.data_build.mdmr.writers import KNOWN_WITHOUT_LOOKING, Author

INSTRUCTION = Text(en="Put the cat on the sofa.", zh="把猫放在沙发上。")


def question(en: str, *, expected: bool = True) -> BlindQuestion:
    draft = DraftQuestion(
        text=Text(en=en, zh="是吗？"), dimension="following", level="atomic", expected=expected, about=["instruction"]
    )
    return BlindQuestion(INSTRUCTION, draft)


class Fixed:
    """Says yes with given probabilities, one after the other, and no with the rest; half of it to each of two words."""

    name = fingerprint = "fixed"
    max_concurrency = 1

    def __init__(self, yes: Sequence[float]) -> None:
        self.yes = yes

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Is never asked."""
        raise NotImplementedError

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Spread the probabilities evenly over the spellings of yes, and those of no."""
        sides = [[choice for choice in choices if choice.strip().lower() == word] for word in ("yes", "no")]
        return [
            ChoiceScores(
                {
                    choice: math.log(share / len(side))
                    for side, share in zip(sides, (yes, 1 - yes), strict=True)
                    for choice in side
                }
            )
            for _, yes in zip(conversations, self.yes, strict=True)
        ]


def test_it_is_asked_in_four_ways_without_a_picture() -> None:
    assert PROBES == (("followed", "plain"), ("followed", "opposite"), ("ignored", "plain"), ("ignored", "opposite"))
    texts = [prompt_text(ask_blindly("Show a {frame}.", "Is it red?", *probe)) for probe in PROBES]

    assert len(set(texts)) == 4
    assert all('"Show a {frame}."' in text and '"Is it red?"' in text for text in texts)
    assert all("{question}" not in text and "{asked}" not in text for text in texts)


@pytest.mark.parametrize(
    ("yes", "expected", "probabilities"),
    [
        ((0.95, 0.1, 0.92, 0.04), True, [0.95, 0.9, 0.92, 0.96]),
        ((0.95, 0.1, 0.92, 0.04), False, [0.05, 0.1, 0.08, 0.04]),
        ((0.02, 0.97, 0.03, 0.99), False, [0.98, 0.97, 0.97, 0.99]),
    ],
)
def test_probabilities_of_the_expected_answer_by_hand(
    yes: tuple[float, ...], expected: bool, probabilities: list[float]
) -> None:
    (answer,) = ask_all_blindly(Fixed(yes), [question("Is it red?", expected=expected)])

    assert answer.status == "ok"
    assert answer.expected == pytest.approx(probabilities)
    assert answer.is_blind(min(probabilities) - 1e-6)
    assert not answer.is_blind(min(probabilities) + 1e-6)


@pytest.mark.parametrize("rule", ["always_yes", "always_no", "random"])
def test_a_model_that_does_not_read_condemns_nothing(rule: str) -> None:
    questions = [
        question(f"Is there a thing number {number}?", expected=expected)
        for number in range(50)
        for expected in (True, False)
    ]
    answers = ask_all_blindly(ScriptedVLM(rule), questions)  # type: ignore[arg-type]
    condemned = sum(answer.is_blind(0.9) for answer in answers)

    assert all(answer.status == "ok" for answer in answers)
    # Of fair coins, one question in 2^4 has four right answers: 100 / 16 of them, give or take.
    assert condemned <= (15 if rule == "random" else 0)


def test_an_obedient_picture_is_no_proof_and_what_everybody_knows_is_one() -> None:
    questions = [question("Is there a cat on the sofa?"), question(KNOWN_WITHOUT_LOOKING["en"])]
    cat, triangle = ask_all_blindly(Author(), questions)

    assert cat.expected[0] > 0.9  # asked the plain way alone, it would be lost
    assert not cat.is_blind(0.9)
    assert triangle.is_blind(0.9)


def test_a_failure_is_a_status_and_condemns_nothing() -> None:
    (answer,) = ask_all_blindly(Author(blind="fails"), [question("Is it red?")])

    assert (answer.status, answer.reason, answer.expected) == ("api_error", "no answer", [])
    assert not answer.is_blind(0.6)
    assert ask_all_blindly(Fixed([]), []) == []


@pytest.mark.parametrize("confidence", [0.5, 0.0, 1.1])
def test_a_guess_is_no_confidence(confidence: float) -> None:
    with pytest.raises(UserError, match=r"checklists\.blind\.confidence in \(0\.5, 1\]"):
        BlindSettings(confidence=confidence)
