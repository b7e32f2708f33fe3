"""Refuse modules over 500 lines and functions over 80: past that, a reader loses the thread.

A function's length is counted from `def` to its last line, docstring and comments included.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gnomon", "rm", "bench", "rl", "data_build", "benchmarks", "tests", "tools")
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 80


def too_long(path: Path) -> Iterator[str]:
    """Yield one sentence for the module at `path` and for each function in it that is too long."""
    source = path.read_text(encoding="utf-8")
    num_lines = len(source.splitlines())
    if num_lines > MAX_MODULE_LINES:
        yield f"{path}: {num_lines} lines, at most {MAX_MODULE_LINES}: split the module"
    for node in ast.walk(ast.parse(source, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            num_lines = node.end_lineno - node.lineno + 1
            if num_lines > MAX_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {num_lines} lines, at most {MAX_FUNCTION_LINES}: split it"


def main() -> int:
    """Print what is too long and return 1 if anything is."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    problems = [problem for path in paths for problem in too_long(path)]
    for problem in problems:
        print(problem)
    print(f"{len(paths)} modules checked, {len(problems)} too long")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
