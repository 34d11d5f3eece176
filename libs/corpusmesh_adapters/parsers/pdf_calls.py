"""The few PDFium calls that are made for every line, as bare prototypes.

pypdfium2 declares each argument with a type of its own, which costs more than the call itself (0.5 µs against 0.28 µs
for a font size on the machine that this was measured on). Here handles and addresses are plain integers. The calls are
short and a parser process has one thread, so they keep the interpreter's lock.
"""

import ctypes
from collections.abc import Callable
from typing import Any, cast

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

_INT = ctypes.c_int
_HANDLE = ctypes.c_void_p


def _prototype(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return cast("Callable[..., Any]", ctypes.PYFUNCTYPE(result, *arguments)(address))


def handle_of(item: pdfium.PdfPage) -> int:
    """Find the address behind a page.

    Args:
        item: A page, open as long as the address is used.

    Returns:
        The address that the calls of this module take.
    """
    return ctypes.cast(item.raw, ctypes.c_void_p).value or 0


load_text_page: Callable[[int], int | None] = _prototype(pdfium_c.FPDFText_LoadPage, _HANDLE, _HANDLE)
close_text_page: Callable[[int], None] = _prototype(pdfium_c.FPDFText_ClosePage, None, _HANDLE)
count_characters: Callable[[int], int] = _prototype(pdfium_c.FPDFText_CountChars, _INT, _HANDLE)
get_text: Callable[[int, int, int, int], int] = _prototype(
    pdfium_c.FPDFText_GetText, _INT, _HANDLE, _INT, _INT, _HANDLE
)
character_of_text: Callable[[int, int], int] = _prototype(
    pdfium_c.FPDFText_GetCharIndexFromTextIndex, _INT, _HANDLE, _INT
)
count_rectangles: Callable[[int, int, int], int] = _prototype(pdfium_c.FPDFText_CountRects, _INT, _HANDLE, _INT, _INT)
get_rectangle: Callable[[int, int, int, int, int, int], int] = _prototype(
    pdfium_c.FPDFText_GetRect, _INT, _HANDLE, _INT, _HANDLE, _HANDLE, _HANDLE, _HANDLE
)
get_character_box: Callable[[int, int, int, int, int, int], int] = _prototype(
    pdfium_c.FPDFText_GetCharBox, _INT, _HANDLE, _INT, _HANDLE, _HANDLE, _HANDLE, _HANDLE
)
get_loose_box: Callable[[int, int, int], int] = _prototype(
    pdfium_c.FPDFText_GetLooseCharBox, _INT, _HANDLE, _INT, _HANDLE
)
get_font_size: Callable[[int, int], float] = _prototype(pdfium_c.FPDFText_GetFontSize, ctypes.c_double, _HANDLE, _INT)
get_matrix: Callable[[int, int, int], int] = _prototype(pdfium_c.FPDFText_GetMatrix, _INT, _HANDLE, _INT, _HANDLE)
get_text_object: Callable[[int, int], int | None] = _prototype(pdfium_c.FPDFText_GetTextObject, _HANDLE, _HANDLE, _INT)
get_font: Callable[[int | None], int | None] = _prototype(pdfium_c.FPDFTextObj_GetFont, _HANDLE, _HANDLE)
get_font_weight: Callable[[int], int] = _prototype(pdfium_c.FPDFFont_GetWeight, _INT, _HANDLE)
get_font_name: Callable[[int, int, int], int] = _prototype(
    pdfium_c.FPDFFont_GetBaseFontName, ctypes.c_size_t, _HANDLE, _HANDLE, ctypes.c_size_t
)
count_objects: Callable[[int], int] = _prototype(pdfium_c.FPDFPage_CountObjects, _INT, _HANDLE)
get_object: Callable[[int, int], int | None] = _prototype(pdfium_c.FPDFPage_GetObject, _HANDLE, _HANDLE, _INT)
get_object_type: Callable[[int | None], int] = _prototype(pdfium_c.FPDFPageObj_GetType, _INT, _HANDLE)
get_object_bounds: Callable[[int | None, int, int, int, int], int] = _prototype(
    pdfium_c.FPDFPageObj_GetBounds, _INT, _HANDLE, _HANDLE, _HANDLE, _HANDLE, _HANDLE
)
get_object_matrix: Callable[[int | None, int], int] = _prototype(pdfium_c.FPDFPageObj_GetMatrix, _INT, _HANDLE, _HANDLE)
count_form_objects: Callable[[int | None], int] = _prototype(pdfium_c.FPDFFormObj_CountObjects, _INT, _HANDLE)
get_form_object: Callable[[int | None, int], int | None] = _prototype(
    pdfium_c.FPDFFormObj_GetObject, _HANDLE, _HANDLE, ctypes.c_ulong
)
count_segments: Callable[[int | None], int] = _prototype(pdfium_c.FPDFPath_CountSegments, _INT, _HANDLE)
get_segment: Callable[[int | None, int], int | None] = _prototype(
    pdfium_c.FPDFPath_GetPathSegment, _HANDLE, _HANDLE, _INT
)
get_segment_type: Callable[[int | None], int] = _prototype(pdfium_c.FPDFPathSegment_GetType, _INT, _HANDLE)
get_segment_point: Callable[[int | None, int, int], int] = _prototype(
    pdfium_c.FPDFPathSegment_GetPoint, _INT, _HANDLE, _HANDLE, _HANDLE
)
is_segment_closing: Callable[[int | None], int] = _prototype(pdfium_c.FPDFPathSegment_GetClose, _INT, _HANDLE)
