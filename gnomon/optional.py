"""Parts of the stack that an installation may do without, and what to say when one is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from gnomon.errors import UserError


def require(module: str, *, feature: str, extra: str, distribution: str | None = None) -> ModuleType:
    """Import `module`, or say which feature needs which distribution and how to install it.

    Args:
        module: the dotted name to import, such as "wandb".
        feature: what the user asked for, as the subject of a sentence: "the W&B logger".
        extra: the extra of this project that brings the distribution: "wandb" of `gnomon[wandb]`.
        distribution: the name on PyPI, where it is not the module's first part.

    Raises:
        UserError: when the module's own package is not installed. A package that is there but broken keeps
            its own error.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise UserError(
            f"{feature} needs the package {distribution or package}, which is not installed; "
            f"run: pip install 'gnomon[{extra}]'"
        ) from error
