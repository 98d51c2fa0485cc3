"""Splits as files: made from any source, looked at, checked, and loaded wherever the images are."""

from mlcl.data.artefact import Split
from mlcl.data.artefact_reader import read_file as read
from mlcl.split.audit import Finding, audit, compare
from mlcl.split.contact import contact_sheet
from mlcl.split.figures import Figures
from mlcl.split.make import load, make, make_from
from mlcl.split.picture import picture

__all__ = [
    "Figures", "Finding", "Split", "audit", "compare", "contact_sheet", "load", "make", "make_from",
    "picture", "read",
]  # fmt: skip
