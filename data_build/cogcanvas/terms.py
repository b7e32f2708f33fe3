"""Under which terms a manifest may be used: shown before a build, and written beside whatever a build leaves."""

from __future__ import annotations

from textwrap import fill

from data_build.texts import load_texts, texts_hash

PACKAGE, TEXTS = "data_build.cogcanvas", "terms"
TERMS = "TERMS.md"


def terms_text() -> str:
    """Return the terms as Markdown."""
    texts = load_texts(PACKAGE, TEXTS)
    prohibited = "\n".join(f"- {item}" for item in texts["prohibited"])
    paragraphs = [
        f"# {texts['title']}",
        fill(texts["purpose"], 100),
        f"Not allowed:\n\n{prohibited}",
        *(fill(texts[name], 100) for name in ("pictures", "takedown", "limits")),
        f"Version {texts['version']}.",
    ]
    return "\n\n".join(paragraphs) + "\n"


def terms_hash() -> str:
    """Return the version of the terms and a hash of every word."""
    return texts_hash(PACKAGE, TEXTS)
