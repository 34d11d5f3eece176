"""Takes a document's embedded pictures in: what they are, how large, and in a format that everybody shows."""

import io

from PIL import Image

from corpusmesh_adapters.parsers.builder import DocumentBuilder
from corpusmesh_core.documents import Box
from corpusmesh_core.ports.parsing import ParseOptions

_KEPT = {"PNG": "image/png", "JPEG": "image/jpeg"}
_CONVERTED = frozenset(["GIF", "BMP", "TIFF", "WEBP"])
_LEAST_SIDE_PIXELS = 16


def add_figure(
    builder: DocumentBuilder,
    content: bytes,
    options: ParseOptions,
    *,
    text: str = "",
    page: int = 0,
    box: Box | None = None,
) -> None:
    """Add an embedded picture; one that cannot be shown is left with its text.

    Args:
        builder: Where to.
        content: The encoded picture, of any format; b"" where it is missing.
        options: Whether pictures are kept, how large they may be.
        text: What the document says of it (alternative text).
        page: Page from 1, 0 where there are none.
        box: Where it stands.
    """
    found = _shown(content, options) if options.keep_pictures and content else None
    if found is None:
        if text.strip():
            builder.add_picture(b"", media_type="", width=0, height=0, text=text, page=page, box=box)
        return
    content, media_type, width, height = found
    builder.add_picture(content, media_type=media_type, width=width, height=height, text=text, page=page, box=box)


def _shown(content: bytes, options: ParseOptions) -> tuple[bytes, str, int, int] | None:
    try:
        with Image.open(io.BytesIO(content), formats=[*_KEPT, *_CONVERTED]) as image:
            width, height = image.size
            if min(width, height) < _LEAST_SIDE_PIXELS or width * height > options.limits.max_pixels:
                return None
            if image.format in _KEPT:
                return content, _KEPT[image.format], width, height
            stream = io.BytesIO()
            image.convert("RGB").save(stream, "PNG")
            return stream.getvalue(), "image/png", width, height
    except (OSError, ValueError, SyntaxError, KeyError, IndexError, Image.DecompressionBombError):
        return None
