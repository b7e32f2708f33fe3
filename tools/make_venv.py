"""Make, finish or refresh the project's virtual environment `.venv`.

The Makefile runs this before every target. Nothing is done when the stamp in `.venv` fits pyproject.toml and
constraints.txt. The stamp is written last and a mark says that an install is under way, so a killed install is found
by the next call, which starts afresh (a half-written package looks installed to pip; downloads are in pip's cache).

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = ".gnomon-installed"
UNDER_WAY = ".gnomon-install-under-way"


def wanted_stamp(root: Path, extras: str) -> str:
    """Everything that decides what `.venv` should hold, as the text of its stamp.

    The folder is part of it because the scripts in `.venv/bin` name their interpreter by its full path.
    """
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((root / name).read_bytes())
    python = ".".join(map(str, sys.version_info[:2]))
    return f"folder {root}\npython {python}\nextras {extras}\nfiles {digest.hexdigest()}\n"


def reason_to_start_afresh(venv: Path, wanted: str) -> str | None:
    """Why `.venv` cannot be built upon, or None when pip may install into it."""
    if not venv.exists():
        return "there is none yet"
    if (venv / UNDER_WAY).exists():
        return "an earlier install did not finish"
    if not (venv / "bin" / "python").exists():
        return "it has no working Python"
    stamp = venv / STAMP
    if stamp.exists() and stamp.read_text().splitlines()[:2] != wanted.splitlines()[:2]:
        return "it was made in another folder or with another Python"
    if subprocess.run([venv / "bin" / "python", "-m", "pip", "--version"], capture_output=True).returncode != 0:
        return "its pip does not run"
    return None


def create(venv: Path) -> int:
    """Make an empty environment at `venv`, marked as under way from its first moment; return venv's exit code."""
    if venv.exists():
        # Renamed first: a half-deleted environment without its stamp would look like one to build upon.
        retired = venv.with_name(f"{venv.name}.retired")
        shutil.rmtree(retired, ignore_errors=True)
        venv.rename(retired)
        shutil.rmtree(retired)
    venv.mkdir(parents=True)
    (venv / UNDER_WAY).touch()
    code = subprocess.run([sys.executable, "-m", "venv", venv]).returncode
    if code != 0:
        print("Could not make .venv. On Debian and Ubuntu: apt install python3-venv", file=sys.stderr)
    return code


def install(root: Path, venv: Path, extras: str, wanted: str) -> int:
    """Bring `venv` to `wanted` and return the exit code of the command that failed, 0 if none did."""
    reason = reason_to_start_afresh(venv, wanted)
    if reason is not None:
        print(f"== Making .venv with {sys.executable} ({reason})", flush=True)
        code = create(venv)
        if code != 0:
            return code
    had_stamp = (venv / STAMP).exists()
    (venv / UNDER_WAY).touch()
    print(f"== Installing gnomon[{extras}] into .venv, versions as in constraints.txt", flush=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    code = subprocess.run([*pip, "-c", "constraints.txt", "-e", f".[{extras}]" if extras else "."], cwd=root).returncode
    if code != 0:
        if had_stamp and code > 0:  # not killed: pip has put back what it had replaced
            (venv / UNDER_WAY).unlink()
        print("The install failed: pip says why above. Run the same make again once that is cured.", file=sys.stderr)
        return code
    partial = venv / f"{STAMP}.new"
    partial.write_text(wanted)
    partial.replace(venv / STAMP)
    (venv / UNDER_WAY).unlink()
    print("== .venv is ready", flush=True)
    return 0


def main() -> int:
    """Parse the command line and make sure that `.venv` is as wanted."""
    parser = argparse.ArgumentParser(description="Make, finish or refresh the project's .venv.")
    parser.add_argument("--extras", default="dev", help="optional parts to install, separated by commas")
    extras = parser.parse_args().extras
    # Two makes in one checkout take turns; the lock is on the folder itself and ends with this process.
    fcntl.flock(os.open(ROOT, os.O_RDONLY), fcntl.LOCK_EX)
    wanted = wanted_stamp(ROOT, extras)
    venv = (ROOT / ".venv").resolve()  # it may be a link to a roomier disk
    stamp = venv / STAMP
    up_to_date = stamp.exists() and stamp.read_text() == wanted and (venv / "bin" / "python").exists()
    if up_to_date and not (venv / UNDER_WAY).exists():
        return 0
    return install(ROOT, venv, extras, wanted)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted. The next make finishes the install.", file=sys.stderr)
        sys.exit(130)
