"""Edit-Compass: the 36 task cells of a benchmark of edits, as cases."""

from __future__ import annotations

from pathlib import PurePosixPath

from bench.editcompass.cases import CaseError, cell_of, read_case
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import Case


def convert(row: Row, pictures: Pictures) -> list[Case]:
    """Return the case of a row, see :mod:`bench.editcompass.cases`.

    Paths of pictures count from the release's folder, its part's or the cell's, whichever has the file.

    Raises:
        RowError: for a file of no task cell, missing or wrong fields, and a picture that is not there.
    """
    file = PurePosixPath(row.file)
    folders = [PurePosixPath(), *reversed(file.parents)]
    try:
        case = read_case(cell_of(row.file), row.data)
    except CaseError as error:
        raise RowError(str(error), error.kind) from error
    moved = [
        reference.model_copy(update={"path": pictures.find(reference.path, folders, reference.role)})
        for reference in case.references
    ]
    return [case.model_copy(update={"references": moved})]
