"""A case and the judgements of its candidates as the record that reward models are trained on."""

from __future__ import annotations

from gnomon.records import Case, ComparedImage, Comparison, Judgement, Reference


def comparison_of(
    case: Case, references: list[Reference], compared: list[ComparedImage], judgements: list[Judgement], source: str
) -> Comparison:
    """Return one comparison for a case.

    Args:
        case: whose candidates they are.
        references: those of the case, with paths in the comparison's folder.
        compared: the candidates.
        judgements: of pairs of them.
        source: what made it.
    """
    return Comparison(
        id=case.id,
        instruction=case.instruction,
        references=references,
        candidates=compared,
        judgements=judgements,
        group_id=case.id,
        task=case.task,
        split=case.split,
        source=source,
        meta={name: case.meta[name] for name in ("held_out", "combination") if name in case.meta},
    )
