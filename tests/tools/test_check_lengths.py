from __future__ import annotations

from pathlib import Path

from tools.check_lengths import too_long


def module(folder: Path, source: str) -> Path:
    path = folder / "module.py"
    path.write_text(source, encoding="utf-8")
    return path


def function(name: str, num_lines: int) -> str:
    return f"def {name}():\n" + "    pass\n" * (num_lines - 1)


def test_the_longest_allowed_module_and_function_pass(tmp_path: Path) -> None:
    source = function("fits", 80) + "\n" * 420

    assert list(too_long(module(tmp_path, source))) == []


def test_a_module_of_501_lines_is_named_with_its_length(tmp_path: Path) -> None:
    (problem,) = too_long(module(tmp_path, "\n" * 501))

    assert problem.startswith(str(tmp_path / "module.py"))
    assert "501 lines" in problem


def test_each_long_function_is_named_with_its_line_also_inside_a_class(tmp_path: Path) -> None:
    method = "".join(f"    {line}\n" for line in function("method", 81).splitlines())
    source = function("first", 81) + "class Holder:\n" + method + "async " + function("second", 80)

    problems = list(too_long(module(tmp_path, source)))

    assert len(problems) == 2
    assert "first has 81" in problems[0]
    assert ":83: method has 81" in problems[1]
