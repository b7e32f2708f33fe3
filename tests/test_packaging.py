"""What a stranger gets: the wheel and the source archive, and packages that import fast and under our own names."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGES = ("gnomon", "rm", "bench", "rl", "data_build")
# What in a package folder is code or data to ship; caches and editors' leftovers are not.
SHIPPED_SUFFIXES = {".py", ".typed", ".json", ".txt", ".safetensors", ".md", ".yaml", ".html", ".j2", ".jinja", ".css"}


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", "--outdir", str(folder)]
    done = subprocess.run([*command, str(repository)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel_names(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def shipped_files(repository: Path, folder: str) -> set[str]:
    paths = (repository / folder).rglob("*")
    return {str(path.relative_to(repository)) for path in paths if path.suffix in SHIPPED_SUFFIXES}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_every_file_of_each_package(repository: Path, wheel_names: set[str], package: str) -> None:
    expected = shipped_files(repository, package)

    assert f"{package}/py.typed" in expected
    assert sorted(expected - wheel_names) == []


def test_the_wheel_holds_the_configs_as_shared_data(repository: Path, wheel_names: set[str]) -> None:
    shared = {name.partition(".data/data/share/gnomon/")[2] for name in wheel_names}

    assert sorted(shipped_files(repository, "configs") - shared) == []


def test_the_wheel_holds_nothing_else(wheel_names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names if ".dist-info/" not in name and ".data/" not in name}

    assert tops <= set(PACKAGES)


def test_the_source_archive_holds_what_the_makefile_needs_and_no_environment(built: Path) -> None:
    (archive_path,) = built.glob("*.tar.gz")
    with tarfile.open(archive_path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    needed = {"Makefile", "constraints.txt", "pyproject.toml", "LICENSE", "README.md", "tools/make_venv.py"}
    assert sorted(needed - names) == []
    assert not any(name.startswith((".venv", "runs", "dist")) for name in names)


def test_the_wheel_works_outside_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*pip, str(wheel)], check=True)
    (site_packages,) = venv.glob("lib/python*/site-packages")
    # Our dependencies by path. The editable install of this checkout is not seen: it hangs on a .pth file of its own.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")

    show = "import gnomon, rm, bench, rl, data_build as d; print(*(m.__file__ for m in (gnomon, rm, bench, rl, d)))"
    files = subprocess.run([python, "-c", show], cwd=empty, capture_output=True, text=True, check=True).stdout.split()
    assert all(Path(file).is_relative_to(site_packages) for file in files)
    assert (venv / "share" / "gnomon" / "configs").is_dir()
    helped = subprocess.run([venv / "bin" / "gnomon", "--help"], cwd=empty, capture_output=True, text=True)
    assert helped.returncode == 0, helped.stderr
    assert "demo" in helped.stdout


def test_importing_the_packages_imports_no_torch(repository: Path) -> None:
    source = f"import sys, {', '.join(PACKAGES)}; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", source], cwd=repository).returncode == 0


def test_every_requirement_has_a_tested_version(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    lines = (repository / "constraints.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    versions = {canonicalize_name(name): version for name, version in tested.items()}
    for requirement in (Requirement(text) for group in groups for text in group):
        if requirement.name != "gnomon":
            assert versions[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_the_repository_holds_no_links(repository: Path) -> None:
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "--stage"], cwd=repository, capture_output=True, text=True, check=True)

    # Mode 120000 is a symbolic link: it leads out of a clone, or to what only one machine has.
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []
