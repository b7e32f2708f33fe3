"""A small build whose samples are there already: references of noise, in four families and one pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.samples import Sample, SampledReference
from gnomon.images import content_hash, save_png
from gnomon.jsonl import write_records
from tests.data_build.editcompass.writers import noise


def sampled(folder: Path, samples: Sequence[Sample]) -> BuildFolder:
    """Write samples and their pictures as the stage before does."""
    build = BuildFolder(folder)
    for picture in map(noise, range(8)):
        save_png(picture, build.picture(content_hash(picture)[:16]))
    write_records(build.samples, samples)
    return build


def reference(seed: int, role: str, name: str | None = None, **attributes: str) -> SampledReference:
    """Return the reference that shows the noise of a seed."""
    return SampledReference(image=content_hash(noise(seed))[:16], role=role, name=name, attributes=attributes)


CAT, SOFA = reference(0, "animal", "tabby cat"), reference(1, "object", "red sofa")
SAMPLES = [
    Sample(id="fusion-1", bucket="fusion", family="entity_fusion", subtask="animals", references=[CAT, SOFA]),
    Sample(
        id="hair-1",
        bucket="hair",
        family="attribute_transfer",
        subtask="hair",
        references=[reference(2, "target", "woman"), reference(3, "attribute", hair="red curls")],
        content_type="hair",
        pair_id="hair-1",
    ),
    Sample(
        id="hair-1-synthetic",
        bucket="hair",
        family="attribute_transfer",
        subtask="hair",
        references=[reference(4, "target", "woman"), reference(5, "attribute", hair="red curls")],
        content_type="hair",
        reference_origin="synthetic",
        pair_id="hair-1",
    ),
    Sample(
        id="poster-1",
        bucket="poster",
        family="infographic_manipulation",
        subtask="font_change",
        references=[reference(6, "source", "poster")],
        text_language="zh",
    ),
    Sample(
        id="logic-1",
        bucket="logic",
        family="visual_reasoning",
        subtask="analogical_state",
        references=[reference(0, "before"), reference(1, "after"), reference(7, "query", "egg")],
    ),
]
