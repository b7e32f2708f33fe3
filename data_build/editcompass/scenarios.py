"""The scenario file: what experts want to be edited, a line each, and which lines cannot be used."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from bench.placement import nearest
from data_build.editcompass.tasks import MULTI_IMAGE_TASKS, SCENARIO_TASKS
from gnomon.errors import UserError
from gnomon.jsonl import iterate_lines
from gnomon.records import Record, Text


class Scenario(Record):
    """One line of the scenario file: what an expert wants to be edited, and how.

    Attributes:
        id: of the case.
        task: out of :data:`data_build.editcompass.tasks.SCENARIO_TASKS`.
        description: of the source picture, coarse; for a multi-image task, one for each of at least two pictures.
        instruction: of the edit, in English and Chinese.
        hints: the expected outcome, where judges need to be told.
    """

    id: str = Field(min_length=1)
    task: str
    description: str | list[str]
    instruction: Text
    hints: str | None = None

    @property
    def pictures(self) -> dict[str, str]:
        """What each picture shows, by the name of the picture."""
        if isinstance(self.description, str):
            return {self.id: self.description}
        return {f"{self.id}_{number}": text for number, text in enumerate(self.description, start=1)}

    def problem(self) -> str | None:
        """Say what is wrong with it, if anything."""
        if self.task not in SCENARIO_TASKS:
            return (
                f"expected a task out of {', '.join(SCENARIO_TASKS)}, got {self.task!r}"
                f"{nearest(self.task, SCENARIO_TASKS)}"
            )
        several = isinstance(self.description, list)
        if several != (self.task in MULTI_IMAGE_TASKS) or (several and len(self.description) < 2):
            wanted = "a list of at least two descriptions" if self.task in MULTI_IMAGE_TASKS else "one description"
            return f"expected {wanted} for the task {self.task}, got {self.description!r:.80}"
        if not all(text.strip() for text in self.pictures.values()):
            return "expected a description, got a blank one"
        if not ((self.instruction.en or "").strip() and (self.instruction.zh or "").strip()):
            return "expected the instruction under both 'en' and 'zh'"
        return None


class ScenarioProblem(Record):
    """A line of the scenario file that cannot be used."""

    file: str
    line: int
    message: str


def read_scenarios(file: Path) -> tuple[list[Scenario], list[ScenarioProblem]]:
    """Read the usable lines of a scenario file, and what is wrong with the others.

    Raises:
        UserError: for a file that cannot be read, and one without a usable line.
    """
    usable: list[Scenario] = []
    problems: list[ScenarioProblem] = []
    line_of: dict[str, int] = {}
    for line in iterate_lines(file, Scenario):
        problem = line.problem if line.record is None else line.record.problem()
        if line.record is not None and problem is None:
            names = {line.record.id, *line.record.pictures}
            taken = [name for name in sorted(names) if name in line_of]
            if not taken:
                line_of |= dict.fromkeys(names, line.number)
                usable.append(line.record)
                continue
            problem = f"the name {taken[0]!r} is already that of line {line_of[taken[0]]}; give every scenario its own"
        problems.append(ScenarioProblem(file=str(file), line=line.number, message=problem or "broken line"))
    if not usable:
        first = f"{file}:{problems[0].line}: {problems[0].message}" if problems else "the file is empty"
        raise UserError(f"expected lines {{id, task, description, instruction}} in {file}, none can be used; {first}")
    return usable, problems
