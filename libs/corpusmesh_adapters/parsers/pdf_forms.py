"""Reads filled-in form fields of a PDF page through PDFium's annotations; its text layer does not hold them."""

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from corpusmesh_adapters.parsers.pdf_frames import Frame
from corpusmesh_core.documents import Box

_MAX_ANNOTATIONS = 5_000
_MAX_VALUE_BYTES = 200_000
_NOT_FILLED_IN = (
    pdfium_c.FPDF_FORMFIELD_UNKNOWN,
    pdfium_c.FPDF_FORMFIELD_PUSHBUTTON,
    pdfium_c.FPDF_FORMFIELD_SIGNATURE,
)
_INDEX = re.compile(r"\[\d+\]")
_GetText = Callable[..., int]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field with a value.

    Attributes:
        name: What the form calls it to a person, else the last part of its name.
        value: What was filled in.
        box: Where it stands.
    """

    name: str
    value: str
    box: Box


def read_fields(form: pdfium.PdfFormEnv, page: pdfium.PdfPage, frame: Frame) -> list[FormField]:
    """Read the filled-in fields of a page.

    Args:
        form: The document's form environment.
        page: The page.
        frame: Its coordinates.

    Returns:
        Fields in the order of the page, buttons, signatures and empty ones left out.
    """
    fields: list[FormField] = []
    for index in range(min(pdfium_c.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            field = _field(form, annotation, frame)
        finally:
            pdfium_c.FPDFPage_CloseAnnot(annotation)
        if field is not None:
            fields.append(field)
    return fields


def _field(form: pdfium.PdfFormEnv, annotation: object, frame: Frame) -> FormField | None:
    if pdfium_c.FPDFAnnot_GetSubtype(annotation) != pdfium_c.FPDF_ANNOT_WIDGET:
        return None
    if pdfium_c.FPDFAnnot_GetFormFieldType(form, annotation) in _NOT_FILLED_IN:
        return None
    value = _text(pdfium_c.FPDFAnnot_GetFormFieldValue, form, annotation)
    if value in ("", "Off"):
        return None
    name = _text(pdfium_c.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    if not name:
        name = _INDEX.sub("", _text(pdfium_c.FPDFAnnot_GetFormFieldName, form, annotation).rpartition(".")[2])
    edges = pdfium_c.FS_RECTF()
    pdfium_c.FPDFAnnot_GetRect(annotation, edges)
    return FormField(name, value, frame.box(edges.left, edges.bottom, edges.right, edges.top))


def _text(get: _GetText, form: pdfium.PdfFormEnv, annotation: object) -> str:
    byte_count = min(get(form, annotation, None, 0), _MAX_VALUE_BYTES)
    if byte_count <= 2:
        return ""
    buffer = (ctypes.c_ushort * (byte_count // 2 + 1))()
    get(form, annotation, buffer, byte_count)
    return bytes(buffer)[: byte_count - 2].decode("utf-16-le", "replace").strip()
