"""Where a model or an adapter is: a folder, a file, the hub, or the hub's cache, and what to say when it is nowhere.

The loaders of diffusers and transformers ask the hub anew for every file that they may want, and wait and ask again
five times each when it does not answer. So it is asked once here before they start, without a second try.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from gnomon.errors import UserError


def cached_file(what: str, name: str, files: Sequence[str], revision: str | None = None) -> Path | None:
    """Ask the hub whether it has `name`; where it does not answer, look for an earlier download.

    `HF_HUB_OFFLINE`, `HF_HUB_ETAG_TIMEOUT`, `HF_ENDPOINT` and `HF_HUB_CACHE` mean what they mean to huggingface_hub.

    Args:
        what: what is looked for, as in "model folder".
        name: of a repository on the hub; something local must have been looked for before.
        files: names of files of which the repository has at least one.
        revision: branch, tag or commit.

    Returns:
        None when the hub answers; otherwise the first of the files that is in the cache.

    Raises:
        UserError: when `name` can be no repository, the hub has none, or it does not answer and the cache has nothing.
    """
    if _is_path(name):
        raise UserError(f"expected a {what} at {name!r}, there is none")
    try:
        get_hf_file_metadata(hf_hub_url(name, files[0], revision=revision), retry_on_errors=False)
    except EntryNotFoundError:
        return None  # it has the repository, and perhaps another of the files
    except Exception as error:  # whichever way the HTTP library has to say that there was no answer
        found = (try_to_load_from_cache(name, file, revision=revision) for file in files)
        if cached := next((file for file in found if isinstance(file, str)), None):
            return Path(cached)
        raise UserError(_nowhere(what, name, revision, error)) from error
    return None


def reason_of(error: BaseException) -> str:
    """Put into one line what a loader says, and the error that it says it of, which mostly tells more."""
    first = error
    while before := first.__cause__ or first.__context__:
        first = before
    said, meant = (" ".join(str(one).split()).rstrip(" .") for one in (error, first))
    # A lone number or key, such as a KeyError's, says nothing outside of the code that it comes from.
    return (f"{said} ({meant})" if " " in meant and meant not in said else said) or type(error).__name__


def _is_path(name: str) -> bool:
    """Say whether a name can be no repository (OWNER/NAME), about which the hub's answer would only mislead."""
    return name.count("/") != 1 or name.startswith((".", "/", "~")) or any(char.isspace() for char in name)


def _nowhere(what: str, name: str, revision: str | None, error: Exception) -> str:
    asked = f"{name!r}" if revision is None else f"{name!r} in revision {revision!r}"
    reason = reason_of(error)
    if isinstance(error, GatedRepoError):
        advice = "Ask for access on its page and log in with `hf auth login`"
    elif isinstance(error, RevisionNotFoundError):
        advice = "Choose another revision"
    elif isinstance(error, RepositoryNotFoundError):
        advice = "Check the name; a private repository needs `hf auth login`"
    else:
        advice = (
            "Check the name and the connection, or download it elsewhere and give the folder (HF_ENDPOINT names a "
            "mirror, HF_HUB_OFFLINE=1 asks the cache alone)"
        )
    return (
        f"found {asked} nowhere: there is no {what} of this name, nothing of it in the hub's cache "
        f"({constants.HF_HUB_CACHE}), and the hub ({constants.ENDPOINT}) did not give it: {reason}. {advice}"
    )
