"""What became of rules as JUnit XML, which CI servers show as tests. Its form: github.com/testmoapp/junitxml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO
from xml.etree import ElementTree

from kinspect.output import Opening
from kinspect.output.checktexts import NOTHING, Row, explained, in_short, passed_by_nothing
from kinspect.output.escape import escape
from kinspect.sink import Sink

SUITE = "kinspect check"


def open_rows(opening: Opening, columns: Sequence[str]) -> JUnit:
    """Rows, which the sink is told, as one document."""
    return JUnit(opening.stream.buffer)


class JUnit(Sink):
    """Writes a test case for each rule, all at the end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rows: list[Row] = []

    def tell(self, row: Row) -> None:
        self._rows.append(row)

    def finish(self) -> None:
        counts = {
            "tests": f"{len(self._rows)}",
            "failures": f"{sum(row['broken'] for row in self._rows)}",
            "skipped": f"{sum(_is_skipped(row) for row in self._rows)}",
        }
        document = ElementTree.Element("testsuites", counts)
        suite = ElementTree.SubElement(document, "testsuite", {"name": SUITE, **counts})
        for row in self._rows:
            case = ElementTree.SubElement(
                suite, "testcase", {"classname": SUITE, "name": escape(row["rule"])}
            )
            if row["broken"]:
                about = {"type": row["status"], "message": in_short(row)}
                ElementTree.SubElement(case, "failure", about).text = "\n".join(explained(row))
            elif _is_skipped(row):
                ElementTree.SubElement(case, "skipped", {"message": in_short(row)})
            elif passed_by_nothing(row):
                ElementTree.SubElement(case, "system-out").text = NOTHING
        ElementTree.indent(document)
        self._stream.write(ElementTree.tostring(document, encoding="utf-8", xml_declaration=True) + b"\n")
        self._stream.flush()


def _is_skipped(row: Row) -> bool:
    return row["status"] == "unknown" and not row["broken"]
