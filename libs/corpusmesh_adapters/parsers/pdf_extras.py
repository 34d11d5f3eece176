"""What PDFium does not give: form values, and Arabic text with its ligatures in the right order (both by pypdf)."""

import io
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import DictionaryObject

from corpusmesh_adapters.parsers.pdf_lines import Frame
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
