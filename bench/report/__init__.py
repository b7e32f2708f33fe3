"""Self-contained result pages: data in, one HTML file out, with no script and no request to anywhere.

A page is a :class:`Report`: sections that hold tiles, tables, figures (see :mod:`bench.report.plots`) and galleries.
:mod:`bench.report.pages` builds the pages of `gnomon bench report` and `gnomon bench compare` on it.
"""

from bench.report.blocks import (
    Detail,
    Figure,
    Findings,
    Gallery,
    GalleryRow,
    Link,
    Mark,
    Measured,
    Overlay,
    Picture,
    PictureGroup,
    Table,
    Tile,
)
from bench.report.document import Report

__all__ = [
    "Detail",
    "Figure",
    "Findings",
    "Gallery",
    "GalleryRow",
    "Link",
    "Mark",
    "Measured",
    "Overlay",
    "Picture",
    "PictureGroup",
    "Report",
    "Table",
    "Tile",
]
