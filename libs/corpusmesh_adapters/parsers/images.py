"""Reads images: PNG, JPEG, TIFF with one page or many, BMP, GIF, WEBP. Their text is recognised; frames are pages.

An image says how large it is before its first pixel; what is too large is refused there, so that a file of a few
kilobytes which unpacks to gigabytes costs nothing.
"""

import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from PIL import Image, ImageOps, TiffImagePlugin, WebPImagePlugin

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.failures import corrupt, empty, over_limit, page_list
from corpusmesh_adapters.parsers.recognition import RecognizedPage, is_available, recognize
from corpusmesh_adapters.parsers.recognition.raster import Pixels
from corpusmesh_core.documents import Block, BlockKind, Box, ParsedDocument
from corpusmesh_core.ports.parsing import ParseLimits, RecognitionMode

_MEDIA_TYPES: Final = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "BMP": "image/bmp",
    "GIF": "image/gif",
    # Named by their modules: an import of these two spares Pillow the search through all of its formats.
    TiffImagePlugin.TiffImageFile.format: "image/tiff",
    WebPImagePlugin.WebPImageFile.format: "image/webp",
}
_SHOWN_AS_IT_IS: Final = frozenset(("image/png", "image/jpeg"))
_SCREEN_DOTS: Final = 96.0
_SCAN_DOTS: Final = (50.0, 1_250.0)
"""What a resolution in a file must lie between to be believed."""

_ORIENTATION: Final = 0x0112
_JPEG_QUALITY: Final = 85
_JPEG_START: Final = b"\xff\xd8"
_MAX_PNG_PIXELS: Final = 4_000_000
_MIN_FIGURE_PIXELS: Final = 24
_MAX_SIDE: Final = 4_000
_ARTIST: Final = 0x013B
_TIME: Final = 0x0132
_DAMAGE: Final = (OSError, SyntaxError, ValueError, EOFError, ArithmeticError, LookupError, TypeError, AttributeError)
"""What Pillow's decoders answer damaged files with."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """A decoded frame.

    Attributes:
        page: Its number from 1.
        pixels: The frame, made smaller where it is larger than any model looks at.
        dots_per_inch: Resolution of `pixels`.
        original: The file itself where it shows this frame as it is; b"" where it has to be encoded anew.
        original_size: Width and height of the frame in the file.
    """

    page: int
    pixels: Pixels
    dots_per_inch: float
    original: bytes
    original_size: tuple[int, int]

    @property
    def points_per_pixel(self) -> float:
        return 72.0 / self.dots_per_inch

    @property
    def box(self) -> Box:
        height, width = self.pixels.shape[:2]
        return Box(
            self.page, 0.0, 0.0, round(width * self.points_per_pixel, 1), round(height * self.points_per_pixel, 1)
        )


def parse_image(source: Source) -> ParsedDocument:
    """Read an image.

    Args:
        source: The file.

    Returns:
        A page per frame with the text that was recognised in it; the image itself as a picture and as the image of
        the page, where these are kept.

    Raises:
        DocumentError: DOCUMENT_EMPTY if text may not or cannot be recognised, or there is none; DOCUMENT_CORRUPT;
            DOCUMENT_RESOURCE_LIMIT `max_pixels`, `max_pages` or what recognition breaks.
    """
    if source.options.recognition is RecognitionMode.NEVER:
        raise empty("it is an image, and recognising text in images (OCR) is switched off; set recognition to auto")
    if not is_available():
        raise empty("it is an image, and recognising text in images (OCR) is not installed; install corpusmesh[vision]")
    image = _open(source)
    # What Pillow names otherwise is JPEG with a second image in it.
    media_type = _MEDIA_TYPES.get(image.format or "", "image/jpeg")
    builder = DocumentBuilder(media_type, source.limits, keep_pictures=source.options.keep_pictures)
    reader = _Reader(source, builder)
    metadata = _metadata(image)
    page_count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for frame in _frames(image, media_type, source):
            page_count += 1
            reader.read(frame)
    reader.warn()
    return builder.build(
        title=builder.first_text(BlockKind.TITLE),
        page_count=page_count,
        metadata=metadata,
        empty_detail="no text was found in the image",
    )


def _open(source: Source) -> Image.Image:
    try:
        with warnings.catch_warnings():
            # Pillow warns of images that it finds large; this parser has a limit of its own.
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(source.content), formats=tuple(_MEDIA_TYPES))
    except Image.DecompressionBombError as error:
        raise over_limit("max_pixels", source.limits.max_pixels, "its image has far more pixels") from error
    except _DAMAGE as error:
        raise corrupt(f"its image cannot be opened ({type(error).__name__})") from error
    _check_size(image, source.limits)
    return image


def _check_size(image: Image.Image, limits: ParseLimits) -> None:
    width, height = image.size
    if width * height > limits.max_pixels:
        raise over_limit("max_pixels", limits.max_pixels, f"its image has {width} x {height} pixels")


def _frames(image: Image.Image, media_type: str, source: Source) -> Iterator[_Frame]:
    """Decode frame after frame; each is let go before the next."""
    limits = source.limits
    page = 0
    while True:
        if page >= limits.max_pages:
            raise over_limit("max_pages", limits.max_pages, "its image has more frames")
        page += 1
        try:
            _check_size(image, limits)
            is_turned = image.getexif().get(_ORIENTATION, 1) not in (0, 1)
            image.load()
            upright = ImageOps.exif_transpose(image) if is_turned else image
            size = upright.size
            pixels = _pixels(upright)
        except Image.DecompressionBombError as error:
            raise over_limit("max_pixels", limits.max_pixels, "a frame of it has far more pixels") from error
        except _DAMAGE as error:
            raise corrupt(f"frame {page} of its image cannot be decoded ({type(error).__name__})") from error
        is_whole = page == 1 and media_type in _SHOWN_AS_IT_IS and not is_turned and not _has_more(image)
        dots = _dots_per_inch(image) * max(pixels.shape[:2]) / max(size)
        yield _Frame(page, pixels, dots, source.content if is_whole else b"", size)
        del pixels, upright
        try:
            image.seek(page)
        except EOFError:
            return
        except _DAMAGE as error:
            raise corrupt(f"frame {page + 1} of its image cannot be found ({type(error).__name__})") from error


def _has_more(image: Image.Image) -> bool:
    return bool(getattr(image, "is_animated", False))


def _pixels(frame: Image.Image) -> Pixels:
    """Take the pixels of a frame: on white paper, in eight bits a channel, no larger than any model looks at."""
    longer = max(frame.size)
    if frame.mode.startswith(("I", "F")):
        # Sixteen bits and more: from black to the lightest there is.
        values = np.asarray(frame).astype(np.float32)
        least = min(float(values.min(initial=0.0)), 0.0)
        most = max(float(values.max(initial=0.0)), 1e-6)
        frame = Image.fromarray(((values - least) / (most - least) * 255).astype(np.uint8))
    if frame.has_transparency_data:
        clear = frame.convert("RGBA")
        frame = Image.new("RGBA", clear.size, "white")
        frame.alpha_composite(clear)
    if frame.mode not in ("L", "RGB"):
        frame = frame.convert("RGB")
    if longer > _MAX_SIDE:
        size = [max(round(side * _MAX_SIDE / longer), 1) for side in frame.size]
        frame = frame.resize((size[0], size[1]), Image.Resampling.BOX)
    return np.asarray(frame.convert("RGB") if frame.mode == "L" else frame)


def _metadata(image: Image.Image) -> dict[str, str]:
    try:
        noted = image.getexif()
        author, created = noted.get(_ARTIST, ""), noted.get(_TIME, "")
    except _DAMAGE:
        author, created = "", ""
    dots = _dots_per_inch(image)
    return {
        "author": str(author),
        "created": str(created),
        "pixels": f"{image.width}x{image.height}",
        "dots_per_inch": f"{dots:g}",
    }


def _dots_per_inch(image: Image.Image) -> float:
    """Read the resolution that a scanner noted; pictures without one are taken as shown on a screen."""
    noted = image.info.get("dpi")
    try:
        dots = float(noted[0]) if noted else 0.0
    except (TypeError, ValueError, ArithmeticError, LookupError):
        dots = 0.0
    return dots if _SCAN_DOTS[0] <= dots <= _SCAN_DOTS[1] else _SCREEN_DOTS


class _Reader:
    """Reads frames into a document."""

    def __init__(self, source: Source, builder: DocumentBuilder) -> None:
        self._options = source.options
        self._builder = builder
        self._recognized_count = 0
        self._left: list[int] = []
        self._unsure: list[int] = []

    def read(self, frame: _Frame) -> None:
        """Add a frame: its pictures, and the text that is recognised in it."""
        if self._options.keep_pictures:
            height, width = frame.pixels.shape[:2]
            content = frame.original or _encoded(frame.pixels)
            if frame.original:
                width, height = frame.original_size
            media_type = "image/jpeg" if content.startswith(_JPEG_START) else "image/png"
            self._builder.add_picture(
                content, media_type=media_type, width=width, height=height, page=frame.page, box=frame.box
            )
        if self._options.render_pages:
            self._add_page_image(frame)
        limits = self._options.limits
        if self._recognized_count >= limits.max_recognized_pages:
            self._left.append(frame.page)
            return
        self._recognized_count += 1
        found = recognize(frame.pixels, page=frame.page, points_per_pixel=frame.points_per_pixel, limits=limits)
        self._builder.note_recognized(frame.page)
        if found.dropped_line_count:
            self._unsure.append(frame.page)
        self._add(found, frame)

    def warn(self) -> None:
        """Tell the document what was left out."""
        if self._left:
            limit = self._options.limits.max_recognized_pages
            self._builder.warn(f"Frames beyond max_recognized_pages={limit} were not read: {page_list(self._left)}.")
        if self._unsure:
            self._builder.warn(f"Lines that could not be read for sure were left out on: {page_list(self._unsure)}.")

    def _add_page_image(self, frame: _Frame) -> None:
        height, width = frame.pixels.shape[:2]
        scale = min(1.0, self._options.render_dots_per_inch / frame.dots_per_inch)
        size = max(round(width * scale), 1), max(round(height * scale), 1)
        content = _jpeg(Image.fromarray(frame.pixels).resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0))
        self._builder.add_page_image(content, media_type="image/jpeg", width=size[0], height=size[1], page=frame.page)

    def _add(self, found: RecognizedPage, frame: _Frame) -> None:
        for block in found.blocks:
            if block.table is not None:
                self._builder.add_table(
                    block.table.rows,
                    header_row_count=block.table.header_row_count or None,
                    spans=block.table.spans,
                    page=block.page,
                    boxes=block.boxes,
                    confidence=block.confidence,
                )
            elif block.kind is BlockKind.FIGURE:
                self._add_figure(block, frame)
            else:
                self._builder.add(
                    block.kind,
                    block.text,
                    level=block.level,
                    page=block.page,
                    boxes=block.boxes,
                    confidence=block.confidence,
                )

    def _add_figure(self, block: Block, frame: _Frame) -> None:
        (box,) = block.boxes
        scale = 1 / frame.points_per_pixel
        left, top, right, bottom = (round(edge * scale) for edge in (box.left, box.top, box.right, box.bottom))
        part = frame.pixels[top:bottom, left:right]
        is_small = min(part.shape[:2]) < _MIN_FIGURE_PIXELS
        content = b"" if is_small or not self._options.keep_pictures else _jpeg(Image.fromarray(part))
        self._builder.add_picture(
            content,
            media_type="image/jpeg",
            width=part.shape[1],
            height=part.shape[0],
            text=block.text,
            page=block.page,
            box=box,
        )


def _encoded(pixels: Pixels) -> bytes:
    if pixels.shape[0] * pixels.shape[1] > _MAX_PNG_PIXELS:
        return _jpeg(Image.fromarray(pixels))
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def _jpeg(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_JPEG_QUALITY)
    return stream.getvalue()
