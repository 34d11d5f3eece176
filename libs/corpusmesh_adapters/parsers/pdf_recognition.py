"""Decides which PDF pages have to be read as images, and has them recognised; a page that fails costs itself alone."""

import importlib.util
from dataclasses import dataclass, field

import pypdfium2 as pdfium

from corpusmesh_adapters.parsers.pdf_frames import Frame
from corpusmesh_adapters.parsers.pdf_images import render
from corpusmesh_core.documents import Block
from corpusmesh_core.errors import CorpusMeshError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

_DOTS_PER_INCH = 200.0
# Recognition reads no finer; of a poster, more pixels would only take memory.
_MAX_PIXELS = 16_000_000
_PACKAGE = "corpusmesh_adapters.parsers.recognition"
# What a model's runtime, or the arithmetic around it, answers images with that it cannot take.
_FAILURES = (CorpusMeshError, RuntimeError, ValueError, ArithmeticError, LookupError, OSError, pdfium.PdfiumError)


@dataclass(slots=True)
class PageRecognizer:
    """Recognises the pages of one document.

    Attributes:
        options: When to recognise, and what it may cost.
        recognized: Pages that were recognised, from 1.
        failed: Pages on which it failed.
        beyond_limit: Pages that were left because of the limit on recognised pages.
    """

    options: ParseOptions
    recognized: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    beyond_limit: list[int] = field(default_factory=list)
    _available: bool | None = None

    @property
    def wants_every_page(self) -> bool:
        """Whether text layers are not to be used."""
        return self.options.recognition is RecognitionMode.ALWAYS and self.is_available

    @property
    def is_available(self) -> bool:
        """Whether recognition is allowed and installed."""
        if self._available is None:
            self._available = self.options.recognition is not RecognitionMode.NEVER and _is_installed()
        return self._available

    def read(self, page: pdfium.PdfPage, frame: Frame) -> tuple[Block, ...] | None:
        """Recognise a page.

        Args:
            page: The page.
            frame: Its coordinates.

        Returns:
            Its blocks in reading order, none for a page without writing; None where it was not recognised.
        """
        if not self.is_available:
            return None
        limits = self.options.limits
        if len(self.recognized) + len(self.failed) >= limits.max_recognized_pages:
            self.beyond_limit.append(frame.page)
            return None
        try:
            blocks = _recognize(page, frame, limits)
        except _FAILURES:
            self.failed.append(frame.page)
            return None
        self.recognized.append(frame.page)
        return blocks


def _is_installed() -> bool:
    if importlib.util.find_spec(_PACKAGE) is None:
        return False
    from corpusmesh_adapters.parsers.recognition import is_available

    return is_available()


def _recognize(page: pdfium.PdfPage, frame: Frame, limits: ParseLimits) -> tuple[Block, ...]:
    # The models are loaded with the first page that needs them: most documents never do.
    from corpusmesh_adapters.parsers.recognition import recognize

    most = min(limits.max_pixels, _MAX_PIXELS)
    pixels, points_per_pixel = render(page, frame, dots_per_inch=_DOTS_PER_INCH, max_pixels=most)
    return recognize(pixels, page=frame.page, points_per_pixel=points_per_pixel, limits=limits).blocks
