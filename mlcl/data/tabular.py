"""One's own table of labels: CSV, JSON lines or Parquet, in wide or in long form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mlcl.data.columns import Reading
from mlcl.data.forms import Given, read_sheets
from mlcl.data.gather import FileConfig, folder, gather
from mlcl.data.sheet import Header, Sheet, open_sheet
from mlcl.data.source import Source
from mlcl.data.table import LabelTable
from mlcl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ReadingConfig(FileConfig):
    """How tables of labels are to be read; what is empty is found by the columns' names."""

    form: Literal["auto", "wide", "long"] = "auto"  # one column a class, or a column of labels
    separator: str = "auto"  # between cells
    label_separator: str = "auto"  # within a cell of labels
    encoding: str = ""  # UTF-8, unless the file begins with another's mark
    header: Header = "auto"  # a first line that begins with an image's name is none
    path_column: str = ""  # of the images; empty: found by what columns are called
    label_column: str = ""  # long form; empty: found likewise
    split_column: str = ""  # train, test, val; empty: found likewise
    value_column: str = ""  # long form: whether the label is there (1), is not (0) or is unknown (blank)
    ignore: tuple[str, ...] = ()  # wide form: columns that are no classes
    classes: tuple[str, ...] = ()  # the classes and their order
    unlisted: Literal["absent", "unknown"] = "absent"  # long form: a label that an image does not list
    test_share: float = 0.2  # of the images, where nothing says which are for testing

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.test_share <= 0.9:
            raise ConfigError(f"data.test_share: {self.test_share} is not within 0 and 0.9")

    def reading(self) -> Reading:
        return Reading(
            self.form, self.path_column, self.label_column, self.split_column, self.value_column,
            self.ignore, self.classes, self.label_separator, self.unlisted,
        )  # fmt: skip

    def open(self, path: str | Path) -> Sheet:
        return open_sheet(
            Path(path).expanduser(), separator=self.separator, encoding=self.encoding, header=self.header
        )


class Csv(Source, name="csv"):
    """Your own table: CSV, JSON lines or Parquet; one column a class, or a path and its labels."""

    @dataclass(frozen=True, kw_only=True)
    class Config(ReadingConfig):
        annotations: str = ""  # the file
        test_annotations: str = ""  # one more, whose images are for testing

    def table(self) -> LabelTable:
        config = self.config
        if not config.annotations:
            raise ConfigError("data.annotations: say which file, such as --set data.annotations=labels.csv")
        given = [Given(config.open(config.annotations))]
        if config.test_annotations:
            test = Given(config.open(config.test_annotations), "test")
            given = [replace(given[0], part="train"), test]
        path = given[0].sheet.path
        root = folder(config.root, "root") if config.root else path.parent
        rows = read_sheets(given, config.reading())
        return gather(rows, path.stem, root, config, config.test_share, path)
