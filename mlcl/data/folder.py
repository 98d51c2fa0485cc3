"""A folder tree of images: a text file beside each, Hugging Face metadata, or folders named after labels."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from mlcl.data.forms import Given, read_sheets
from mlcl.data.gather import Rows, counted, folder, gather, listing
from mlcl.data.marks import label_names, part_of
from mlcl.data.sheet import IMAGE_SUFFIXES, Row, Sheet
from mlcl.data.source import Source
from mlcl.data.table import LabelTable
from mlcl.data.tabular import ReadingConfig
from mlcl.data.text import open_text
from mlcl.errors import DataError

METADATA = re.compile(r"metadata\.(csv|jsonl|parquet)")
YOLO = re.compile(r"(\d+)(\s+[\d.]+){4,}")


class Folder(Source, name="folder"):
    """A folder of images: a text file beside each, metadata.csv or .jsonl, or folders named after labels."""

    @dataclass(frozen=True, kw_only=True)
    class Config(ReadingConfig):
        labels: Literal["auto", "text", "metadata", "folders"] = "auto"  # auto: metadata, else text
        unlabelled: Literal["error", "drop", "empty"] = "error"  # images that nothing is said of

    def table(self) -> LabelTable:
        config = self.config
        root = folder(config.root, "root")
        files = _walk(root, config.outside)
        metadata = [f for f in files if METADATA.fullmatch(PurePosixPath(f).name)]
        images = [f for f in files if PurePosixPath(f).suffix.lower() in IMAGE_SUFFIXES]
        if not images:
            raise DataError(f"{root}: no image in it")
        kind = config.labels if config.labels != "auto" else ("metadata" if metadata else "text")
        if kind == "metadata":
            rows = self._by_metadata(root, metadata, images)
        else:
            rows = self._by_walk(root, files, images, kind)
        return gather(rows, root.resolve().name, root, config, config.test_share)

    def _by_metadata(self, root: Path, metadata: Sequence[str], images: Sequence[str]) -> Rows:
        given = []
        for name in metadata:
            base = name.rpartition("/")[0]
            given.append(Given(self.config.open(root / name), "by folder", f"{base}/" if base else ""))
        if not given:
            raise DataError(f"{root}: no metadata.csv, metadata.jsonl or metadata.parquet in it")
        rows = read_sheets(given, self.config.reading())
        listed = set(rows.refs)
        bare = [image for image in images if image not in listed]
        if bare and self.config.unlabelled == "empty":
            raise DataError(
                f'{root}: data.unlabelled = "empty" does not go with metadata; list the images there'
            )
        self._leave_out(bare, root, rows, "metadata")
        return rows

    def _by_walk(self, root: Path, files: Sequence[str], images: Sequence[str], kind: str) -> Rows:
        config = self.config
        texts = {f for f in files if f.endswith(".txt")}
        used = Counter[str]()
        bare: list[str] = []
        labelled: list[tuple[str, list[str]]] = []
        places: list[str] = []
        for image in images:
            labels, place = _folders_of(image), root / image
            if kind == "text":
                text = _text_beside(image, texts)
                labels = None if text is None else self._labels_in(root / text)
                place = root / (text or image)
                used.update([text] if text else [])
            if labels is None:
                bare.append(image)
            if labels is not None or config.unlabelled == "empty":
                labelled.append((image, labels or []))
                places.append(str(place))
        shared = [text for text, count in used.items() if count > 1]
        if shared:
            raise DataError(f"{root / shared[0]}: beside two images of this name; name it IMAGE.jpg.txt")
        if kind == "text" and not used:
            raise DataError(
                f"{root}: neither a text file beside any image nor metadata.csv; are the folders' names the "
                'labels? then data.labels = "folders"'
            )
        numbered: list[Row] = [(number, row) for number, row in enumerate(labelled)]
        walk = _Walk(root, ("path", "labels"), iter(numbered), places=places)
        rows = read_sheets([Given(walk, "by folder")], replace(config.reading(), form="long"))
        if kind == "text" and texts - used.keys():
            rows.notes.append(f"text files beside no image: {listing(sorted(texts - used.keys()))}")
        if config.unlabelled != "empty":
            self._leave_out(bare, root, rows, "a text file" if kind == "text" else "a folder of a label")
        return rows

    def _leave_out(self, bare: Sequence[str], root: Path, rows: Rows, without: str) -> None:
        if bare and self.config.unlabelled == "error":
            raise DataError(
                f"{root}: {counted(len(bare), 'image')} without {without}: {listing(bare)}; label them, or "
                'set data.unlabelled: "drop" leaves them out, "empty" says that they show no class'
            )
        if bare:
            rows.notes.append(f"{counted(len(bare), 'image')} without {without} left out: {listing(bare)}")
            rows.dropped.update(dict.fromkeys(bare, f"without {without}"))

    def _labels_in(self, path: Path) -> list[str]:
        labels: list[str] = []
        with open_text(path, self.config.encoding) as file:
            for number, line in enumerate(file, 1):
                box = YOLO.fullmatch(line.strip())
                if box and not self.config.classes:
                    raise DataError(
                        f"{path}, line {number}: a box as YOLO writes it; name the classes, in the order of "
                        "their numbers: data.classes = [...]"
                    )
                labels += [box[1]] if box else label_names(line, self.config.label_separator)
        return labels


@dataclass(frozen=True)
class _Walk(Sheet):
    """Images and labels as found in a tree, as if they were rows."""

    places: Sequence[str] = ()

    def at(self, number: int) -> str:
        return self.places[number]


def _walk(root: Path, outside: bool) -> list[str]:
    """All files by name, so that the file system's order plays no part; hidden ones are passed over."""
    found, been = [], set()
    for place, folders, files in os.walk(root, followlinks=outside):
        if outside:  # links may lead around in a circle
            been.add(os.path.realpath(place))
            folders[:] = [f for f in folders if os.path.realpath(f"{place}/{f}") not in been]
        folders[:] = [f for f in folders if not f.startswith(".") and f != "__MACOSX"]
        base = Path(place).relative_to(root).as_posix()
        before = "" if base == "." else f"{base}/"
        found += [before + file for file in files if not file.startswith(".")]
    return sorted(found)


def _text_beside(image: str, texts: Container[str]) -> str | None:
    stem = image.rpartition(".")[0]
    return next((text for text in (f"{stem}.txt", f"{image}.txt") if text in texts), None)


def _folders_of(image: str) -> list[str] | None:
    folders = image.split("/")[:-1]
    return (folders[1:] if part_of(image) else folders) or None
