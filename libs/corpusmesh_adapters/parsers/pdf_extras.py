"""What PDFium gets wrong: vertical writing (read by pdfminer), some attached files (by pypdf)."""

import io
from typing import Any

import pdfplumber
from pdfminer.pdfexceptions import PDFException
from pdfminer.psparser import PSException
from pdfplumber.utils.exceptions import PdfminerException
from pypdf import PdfReader
from pypdf.errors import PyPdfError

from corpusmesh_adapters.parsers.pdf_frames import Frame, Line
from corpusmesh_core.documents import Box

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

    def attachment(self, name: str) -> bytes:
        """Read an attached file.

        Args:
            name: Its name.

        Returns:
            Its content; b"" where pypdf cannot find it either.
        """
        try:
            found = self._open().attachments.get(name, [])
            return found[0] if found else b""
        except PYPDF_ERRORS:
            return b""

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
