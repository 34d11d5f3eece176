"""Recognition of text in images of pages (OCR) with its layout and tables, by models that ship inside wheels.

Optional: `is_available` says whether the extra `vision` is installed. One engine per process, made when the first page
comes; see `models`.
"""

from corpusmesh_adapters.parsers.recognition.models import are_installed as is_available
from corpusmesh_adapters.parsers.recognition.page import RecognizedPage, recognize

__all__ = ["RecognizedPage", "is_available", "recognize"]
