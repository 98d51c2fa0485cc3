"""What a run found: a table on the terminal, and one HTML page that needs nothing but a browser."""

from mlcl.report.describe import describe_stream
from mlcl.report.page import write_report
from mlcl.report.terminal import print_summary

__all__ = ["describe_stream", "print_summary", "write_report"]
