"""What PDFium lacks: form values and Arabic ligatures in order (by pypdf), vertical writing (by pdfminer)."""

import io
from collections.abc import Iterator
from typing import Any

import pdfplumber
from pdfminer.pdfexceptions import PDFException
from pdfminer.psparser import PSException
from pdfplumber.utils.exceptions import PdfminerException
from pypdf import PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import DictionaryObject

from corpusmesh_adapters.parsers.pdf_lines import Frame, Line
from corpusmesh_core.documents import Box

_MAX_FIELD_DEPTH = 16
# pypdf answers broken files with errors of its own and with those of the structures it walks.
PYPDF_ERRORS = (PyPdfError, ValueError, KeyError, TypeError, IndexError, AttributeError, OSError, RecursionError)


class PypdfView:
    """The same document through pypdf, opened when it is first needed."""

    def __init__(self, content: bytes, password: str | None) -> None:
        """Remember the document.

        Args:
            content: The file.
            password: Opens it, where it is encrypted.
        """
        self._content = content
        self._password = password
        self._reader: PdfReader | None = None

    def page_text(self, index: int) -> str:
        """Read a page's text.

        Args:
            index: Page index from 0.

        Returns:
            Lines in reading order; "" where pypdf cannot read the page.
        """
        try:
            return self._open().pages[index].extract_text()
        except PYPDF_ERRORS:
            return ""

    def form_values(self, frames: dict[int, Frame]) -> Iterator[tuple[int, str, str, Box | None]]:
        """Read the filled-in fields of a form.

        Args:
            frames: Coordinates of the pages that were read, by page number.

        Yields:
            Page number, field name, value and place of each field with a value.
        """
        try:
            pages = list(self._open().pages)
        except PYPDF_ERRORS:
            return
        for number, page in enumerate(pages, 1):
            for reference in page.get("/Annots") or ():
                try:
                    found = _field(reference.get_object())
                except PYPDF_ERRORS:
                    continue
                if found is None:
                    continue
                name, value, edges = found
                frame = frames.get(number)
                yield number, name, value, frame.box(*edges) if frame is not None and edges else None

    def _open(self) -> PdfReader:
        if self._reader is None:
            reader = PdfReader(io.BytesIO(self._content), strict=False)
            if reader.is_encrypted:
                reader.decrypt(self._password or "")
            self._reader = reader
        return self._reader


def vertical_lines(content: bytes, password: str | None, index: int, frame: Frame) -> list[Line]:
    """Read a page that is written in columns from top to bottom; PDFium leaves out part of such lines.

    Args:
        content: The file.
        password: Opens it, where it is encrypted.
        index: Page index from 0.
        frame: The page's coordinates.

    Returns:
        One line per column, from right to left; none where the page cannot be read.
    """
    try:
        with pdfplumber.open(io.BytesIO(content), password=password, pages=[index + 1]) as pdf:
            characters = pdf.pages[0].chars
    except (PdfminerException, PDFException, PSException, *PYPDF_ERRORS):
        return []
    columns: list[list[dict[str, Any]]] = []
    for character in sorted(characters, key=_center, reverse=True):
        if columns and _center(columns[-1][0]) - _center(character) < 0.5 * character["size"]:
            columns[-1].append(character)
        else:
            columns.append([character])
    lines = []
    for column in columns:
        column.sort(key=lambda character: float(character["top"]))
        text = "".join(str(character["text"]) for character in column).strip()
        box = Box(
            frame.page,
            round(min(float(character["x0"]) for character in column), 1),
            round(float(column[0]["top"]), 1),
            round(max(float(character["x1"]) for character in column), 1),
            round(max(float(character["bottom"]) for character in column), 1),
        )
        if text:
            lines.append(Line(text, box, round(float(column[0]["size"]), 1)))
    return lines


def _center(character: dict[str, Any]) -> float:
    return (float(character["x0"]) + float(character["x1"])) / 2


def _field(annotation: Any) -> tuple[str, str, tuple[float, float, float, float] | None] | None:
    if not isinstance(annotation, DictionaryObject) or annotation.get("/Subtype") != "/Widget":
        return None
    names: list[str] = []
    value: Any = None
    node: Any = annotation
    for _ in range(_MAX_FIELD_DEPTH):
        if "/T" in node:
            names.insert(0, str(node["/T"]))
        if value is None and "/V" in node:
            value = node["/V"].get_object()
        if "/Parent" not in node:
            break
        node = node["/Parent"].get_object()
    text = _value_text(value)
    if not text:
        return None
    edges = [float(edge) for edge in annotation.get("/Rect", ())]
    place = (min(edges[0], edges[2]), min(edges[1], edges[3]), max(edges[0], edges[2]), max(edges[1], edges[3]))
    return ".".join(names), text, place if len(edges) == 4 else None


def _value_text(value: Any) -> str:
    if value is None or value == "/Off":
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, (_value_text(entry) for entry in value)))
    return str(value).removeprefix("/").strip()
