"""Where the gallery's pictures come from: folders of files, parquet files, and archives in WebDataset's layout."""

from data_build.mdmr.sources.items import Item, SourceProblem
from data_build.mdmr.sources.walk import items

__all__ = ["Item", "SourceProblem", "items"]
