"""dlib's network: read from TensorFlow.js' quantised format, and on photographs of two people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.evaluators.faces.dlib_resnet import UNITS, DlibRecognizer, DlibResNet, read_quantized
from bench.evaluators.faces.embedding import FaceEmbedder
from gnomon.errors import UserError
from tests.bench.evaluators.faces.photographs import detector, photograph, recognizer


def write_tfjs(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """Write a state dict in the format, every second tensor in eight bits."""
    endings = {
        "conv.weight": "conv/filters",
        "conv.bias": "conv/bias",
        "scale": "scale/weights",
        "shift": "scale/biases",
    }
    entries, content = [], b""
    for place, (name, value) in enumerate(state.items()):
        ending = next((each for each in endings if name.endswith(each)), None)
        theirs = "fc" if ending is None else name.removesuffix(ending).replace(".", "/") + endings[ending]
        array = (
            value.permute(2, 3, 1, 0).numpy()
            if value.ndim == 4
            else value.T.numpy()
            if value.ndim == 2
            else value.numpy()
        )
        entry: dict[str, object] = {"name": theirs, "shape": list(array.shape), "dtype": "float32"}
        if place % 2:
            low, scale = float(array.min()), max(float(np.ptp(array)) / 255, 1e-9)
            entry["quantization"] = {"dtype": "uint8", "scale": scale, "min": low}
            content += ((array - low) / scale).round().astype(np.uint8).tobytes()
        else:
            content += array.astype("<f4").tobytes()
        entries.append(entry)
    (folder / "face_recognition_model.bin").write_bytes(content)
    manifest = [{"paths": ["face_recognition_model.bin"], "weights": entries}]
    (folder / "face_recognition_model-weights_manifest.json").write_text(json.dumps(manifest))


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    state = DlibResNet().state_dict()
    write_tfjs(folder, state)
    return folder, state


def test_weights_are_read_with_filters_in_torchs_order(random_weights: tuple[Path, dict[str, torch.Tensor]]) -> None:
    folder, state = random_weights
    found = read_quantized(
        folder / "face_recognition_model-weights_manifest.json", folder / "face_recognition_model.bin"
    )
    assert found.keys() == state.keys()
    for name, value in state.items():
        np.testing.assert_allclose(found[name], value, atol=float(value.max() - value.min()) / 400 + 1e-6)


def test_the_network_has_29_layers_and_halves_as_dlibs_does() -> None:
    net = DlibResNet().eval()
    assert 1 + 2 * len(UNITS) == 29  # convolutions; the last, dense layer is not counted
    assert net(torch.zeros(2, 3, 150, 150)).shape == (2, 128)


def test_an_untrained_network_runs_as_a_recognizer(random_weights: tuple[Path, dict[str, torch.Tensor]]) -> None:
    found = DlibRecognizer(random_weights[0], batch_size=1)
    assert found.embed([]).shape == (0, 128)
    np.testing.assert_allclose(
        found.similarity(np.array([[0.0, 0], [3, 4]]), np.array([[0.3, 0.4]])), [[0.5], [0.0]], atol=1e-12
    )


def test_files_that_do_not_belong_together_are_refused(
    random_weights: tuple[Path, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    for file in random_weights[0].iterdir():
        content = file.read_bytes()
        (tmp_path / file.name).write_bytes(content + b"\0" if file.suffix == ".bin" else content)
    with pytest.raises(UserError, match=r"the manifest describes \d+ bytes"):
        DlibRecognizer(tmp_path)
    with pytest.raises(UserError, match="weights_manifest"):
        DlibRecognizer(tmp_path / "nowhere")


def test_without_weights_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_OFFLINE_DIR", str(tmp_path))
    with pytest.raises(UserError, match=r"@vladmandic/face-api@1\.7\.15"):
        DlibRecognizer()


def test_one_person_is_nearer_than_another_in_every_pair_of_photographs() -> None:
    embedder = FaceEmbedder(detector(), recognizer())
    names = {"a": ["obama", "obama2", "obama_partial_face"], "b": ["biden"]}
    vectors = {
        person: np.concatenate([embedder.largest_face(photograph(f"tests/test_images/{name}.jpg")) for name in files])
        for person, files in names.items()
    }
    same = embedder.similarity(vectors["a"], vectors["a"])[np.triu_indices(3, 1)]
    different = embedder.similarity(vectors["a"], vectors["b"])
    assert same.min() > 0.5  # a distance below .5, where dlib's own threshold is .6
    assert different.max() < 0.3


def test_five_people_in_one_photograph_are_five_people() -> None:
    _, vectors = FaceEmbedder(detector(), recognizer()).all_faces(photograph("demo/sample5.jpg"))
    similarity = recognizer().similarity(vectors, vectors)
    np.testing.assert_allclose(np.diag(similarity), 1, atol=1e-6)
    assert len(vectors) == 5
    assert similarity[np.triu_indices(5, 1)].max() < 0.5
