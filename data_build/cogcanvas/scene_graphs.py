"""The stage graphs: the complete interaction and position graph of every scene that is kept.

Both graphs come with the prompt. Here they get the scene's own names, mutual interactions both ways and the inverse of
each position; people and items are joined by what the scene was drawn with. A graph that cannot hold is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from bench.cogcanvas.cases import Binding, Interaction, Position
from data_build.cogcanvas.folder import GRAPHS, BuildFolder
from data_build.cogcanvas.graphs import Graphs, completed, graph_problems, stated
from data_build.cogcanvas.settings import GraphSettings
from data_build.cogcanvas.verify import SceneDecision, read_decisions, require_kept
from data_build.cogcanvas.write import scene_materials
from data_build.stages import counts_text, require_output, write_report
from gnomon.errors import UserError
from gnomon.jsonl import read_records, write_records
from gnomon.records import Record
from gnomon.runs import RunFolder

COMMAND = "data build cogcanvas, graphs"
GRAPHS_FILE, LEFT_OUT = "graphs.jsonl", "left_out.jsonl"


class SceneGraphs(Record):
    """A scene's prompt and what it says.

    Attributes:
        scene: its id.
        prompt: as it was written.
        bindings: of items to people: the edges of the interaction graph between them.
        interactions: between people, each once.
        positions: from left to right and from front to back, each once.
        all_interactions: the same with mutual ones both ways.
        all_positions: the same with inverses.
        override: who let the scene pass that a check had turned down, and why.
    """

    scene: str
    prompt: str
    bindings: list[Binding]
    interactions: list[Interaction]
    positions: list[Position]
    all_interactions: list[Interaction]
    all_positions: list[Position]
    override: str | None = None

    @property
    def stated(self) -> Graphs:
        """The edges that questions ask for."""
        return Graphs(tuple(self.interactions), tuple(self.positions))


class Impossible(Record):
    """A scene whose graphs cannot hold, and why."""

    scene: str
    problems: list[str] = Field(min_length=1)


class GraphReport(Record):
    """Counts: scenes, edges that were stated, those that follow, and scenes that are left out by what is wrong."""

    num_scenes: int
    edges: dict[str, int]
    num_implied: int
    left_out: dict[str, int]


def complete_graphs(folder: BuildFolder, settings: GraphSettings) -> GraphReport:
    """Complete the graphs of the scenes that are kept.

    Raises:
        UserError: where a stage before did not run, and where no scene is left.
    """
    kept = require_kept(read_decisions(folder), folder)
    found, unusable = scene_materials(folder)
    graphs: list[SceneGraphs] = []
    left_out: list[Impossible] = []
    kinds: Counter[str] = Counter()
    for decision in kept:
        if decision.scene not in found:
            reason = unusable.get(decision.scene, "unknown_scene: it was drawn in another run of the stage sample")
            left_out.append(Impossible(scene=decision.scene, problems=[reason]))
            kinds[reason.partition(":")[0]] += 1
            continue
        material = found[decision.scene]
        made = _graphs(decision, material.names, material.bindings)
        if isinstance(made, SceneGraphs):
            graphs.append(made)
        else:
            left_out.append(made)
            kinds.update({problem.partition(":")[0] for problem in made.problems})
    with RunFolder.open(folder.stage(GRAPHS), command=COMMAND, config={}, seed=0) as run:
        write_records(run.path / GRAPHS_FILE, graphs)
        write_records(run.path / LEFT_OUT, left_out)
        report = _report(graphs, dict(kinds.most_common()))
        write_report(run, report, report_lines(report))
    if not graphs:
        raise UserError(f"no scene is left: {counts_text(report.left_out)}; see {folder.stage(GRAPHS) / LEFT_OUT}")
    return report


def read_graphs(folder: BuildFolder) -> list[SceneGraphs]:
    """Return the scenes with their graphs.

    Raises:
        UserError: where the stage did not run.
    """
    return read_records(require_output(folder.graphs, GRAPHS), SceneGraphs)


def _graphs(decision: SceneDecision, people: Sequence[str], bindings: Sequence[Binding]) -> SceneGraphs | Impossible:
    assert decision.written is not None
    interactions, positions = decision.written.interactions, decision.written.positions
    if problems := graph_problems(people, interactions, positions):
        return Impossible(scene=decision.scene, problems=[f"{one.kind}: {one.message}" for one in problems])
    own = stated(people, interactions, positions)
    everything = completed(own)
    return SceneGraphs(
        scene=decision.scene,
        prompt=decision.written.prompt,
        bindings=list(bindings),
        interactions=list(own.interactions),
        positions=list(own.positions),
        all_interactions=list(everything.interactions),
        all_positions=list(everything.positions),
        override=decision.override,
    )


def _report(graphs: Sequence[SceneGraphs], left_out: dict[str, int]) -> GraphReport:
    edges = {name: sum(len(getattr(one, name)) for one in graphs) for name in ("bindings", "interactions", "positions")}
    complete = sum(len(one.all_interactions) + len(one.all_positions) for one in graphs)
    return GraphReport(
        num_scenes=len(graphs),
        edges=edges,
        num_implied=complete - edges["interactions"] - edges["positions"],
        left_out=left_out,
    )


def report_lines(report: GraphReport) -> list[str]:
    """Return the report for people."""
    lines = [f"{report.num_scenes:,} scenes have graphs: {counts_text(report.edges)}, implied {report.num_implied:,}"]
    if report.left_out:
        lines.append(f"left out: {counts_text(report.left_out)}; see {LEFT_OUT}")
    return lines
