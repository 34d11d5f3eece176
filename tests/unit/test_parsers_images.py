"""Images: every format and kind of pixel, frames as pages, what is kept, and bombs."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from corpusmesh_adapters.parsers import ParserPool, images
from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.images import parse_image
from corpusmesh_adapters.parsers.recognition import is_available
from corpusmesh_core.documents import BlockKind
from corpusmesh_core.errors import DocumentError
from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions, RecognitionMode

needs_models = pytest.mark.skipif(not is_available(), reason="the extra vision is not installed")
MEBIBYTE = 1024 * 1024


def drawn(text="Words in a picture", *, mode="RGB", size=(900, 200)):
    image = Image.new("L", size, 255)
    ImageDraw.Draw(image).text((60, 60), text, font=ImageFont.load_default(size=44), fill=0)
    return image.convert(mode)


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def parse(content, *, limits=None, **options):
    return parse_image(Source(content, "image", ParseOptions(limits=ParseLimits(**(limits or {})), **options)))


def failure(content, *, limits=None, **options):
    with pytest.raises(DocumentError) as raised:
        parse(content, limits=limits, **options)
    return raised.value


def texts(document):
    return [block.text for block in document.blocks if block.text]


def declared_png(width, height, *, rows):
    """A PNG that says how large it is, and holds so many blank rows."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0" * (width + 1) * rows))
    return b"\x89PNG\r\n\x1a\n" + header + body + chunk(b"IEND", b"")


@needs_models
@pytest.mark.parametrize(
    ("kind", "media_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("TIFF", "image/tiff"),
        ("BMP", "image/bmp"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
    ],
)
def test_every_format_is_read(kind, media_type):
    document = parse(saved(drawn(), kind))
    assert document.media_type == media_type
    assert texts(document) == ["Words in a picture"]
    assert (document.page_count, document.recognized_pages) == (1, (1,))
    assert document.metadata["pixels"] == "900x200"
    (block,) = document.blocks
    assert block.confidence > 0.9
    (box,) = block.boxes
    assert 0 <= box.left < 60 < box.right < 900 * 72 / 96


@needs_models
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "LA", "CMYK", "I;16", "I", "F"])
def test_every_kind_of_pixel_is_read(mode):
    image = drawn()
    if mode in ("RGBA", "LA"):
        # Black writing on clear paper: what is below the paper must not show.
        clear = Image.new("RGBA", image.size, (0, 0, 0, 0))
        clear.paste((0, 0, 0, 255), mask=image.convert("L").point(lambda value: 255 - value))
        content = saved(clear.convert(mode), "PNG")
    elif mode == "I;16":
        deep = np.asarray(image.convert("L")).astype(np.uint16) * 200
        content = saved(Image.fromarray(deep), "TIFF")
    elif mode in ("I", "F"):
        content = saved(image.convert("L").convert(mode), "TIFF")
    else:
        content = saved(image.convert(mode), "TIFF")
    assert texts(parse(content)) == ["Words in a picture"]


@needs_models
@pytest.mark.parametrize(("orientation", "turn"), [(3, 180), (6, 90), (8, -90)])
def test_camera_that_was_held_turned_is_honoured(orientation, turn):
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x013B] = "A. Photographer"
    document = parse(saved(drawn().rotate(turn, expand=True), "JPEG", exif=exif), keep_pictures=True)
    assert texts(document) == ["Words in a picture"]
    # Boxes and the picture are those of the image as it is shown.
    picture = document.pictures[0]
    assert (picture.width, picture.height) == (900, 200)
    assert Image.open(io.BytesIO(picture.content)).size == (900, 200)
    assert document.blocks[-1].boxes[0].right > document.blocks[-1].boxes[0].bottom
    assert document.metadata["author"] == "A. Photographer"


@needs_models
def test_frames_are_pages():
    frames = [drawn(f"Page number {number}") for number in ("one", "two", "three")]
    content = saved(frames[0], "TIFF", save_all=True, append_images=frames[1:], dpi=(200, 200))
    document = parse(content, keep_pictures=True, render_pages=True, render_dots_per_inch=100)
    assert texts(document) == ["Page number one", "Page number two", "Page number three"]
    assert [block.page for block in document.blocks if block.text] == [1, 2, 3]
    assert document.recognized_pages == (1, 2, 3)
    assert [image.name for image in document.page_images] == ["page-1", "page-2", "page-3"]
    # 900 pixels at 200 dots per inch, shown at 100.
    assert [(image.width, image.height) for image in document.page_images] == [(450, 100)] * 3
    assert document.pictures[0].box.right == pytest.approx(900 * 72 / 200, abs=0.1)
    assert failure(content, limits={"max_pages": 2}).metadata["limit"] == "max_pages"
    few = parse(content, limits={"max_recognized_pages": 2})
    assert texts(few) == ["Page number one", "Page number two"]
    assert any("max_recognized_pages" in warning for warning in few.warnings)


@needs_models
def test_image_is_kept_as_it_came_only_where_that_is_asked_for():
    content = saved(drawn(), "PNG")
    kept = parse(content, keep_pictures=True)
    assert kept.pictures[0].content == content
    figure = kept.blocks[0]
    assert (figure.kind, figure.picture) == (BlockKind.FIGURE, kept.pictures[0].name)
    plain = parse(content)
    assert (plain.pictures, plain.page_images) == ((), ())


@pytest.mark.parametrize("size", [(20_000, 20_000), (12_000, 12_000)])
def test_bomb_of_pixels_is_refused_by_what_it_declares(size, monkeypatch):
    if not is_available():
        monkeypatch.setattr(images, "is_available", lambda: True)
    bomb = declared_png(*size, rows=size[1])
    assert len(bomb) < MEBIBYTE
    error = failure(bomb)
    assert (error.reason, error.metadata["limit"]) == ("DOCUMENT_RESOURCE_LIMIT", "max_pixels")


@needs_models
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP"])
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_truncated_images_are_corrupt(kind, share):
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 255, (300, 300, 3), dtype=np.uint8))
    content = saved(noise, kind)
    assert failure(content[: int(len(content) * share)]).reason == "DOCUMENT_CORRUPT"


@needs_models
def test_image_without_writing_is_empty():
    error = failure(saved(Image.new("RGB", (300, 200), "white"), "PNG"))
    assert (error.reason, "no text was found" in error.message) == ("DOCUMENT_EMPTY", True)


def test_without_recognition_an_image_is_empty_and_says_what_to_do(monkeypatch):
    content = saved(drawn(), "PNG")
    off = failure(content, recognition=RecognitionMode.NEVER)
    assert off.reason == "DOCUMENT_EMPTY"
    assert "set recognition to auto" in off.message
    monkeypatch.setattr(images, "is_available", lambda: False)
    missing = failure(content)
    assert missing.reason == "DOCUMENT_EMPTY"
    assert "corpusmesh[vision]" in missing.message


READER = """
import resource
from corpusmesh_adapters.parsers.child import serve
from corpusmesh_adapters.parsers.images import parse_image
from corpusmesh_core.documents import ParsedDocument

def parse(source):
    found = parse_image(source)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return ParsedDocument(found.media_type, str(peak), found.blocks)

serve(parse)
"""


@needs_models
async def test_confined_reader_reads_a_large_image_in_bounded_memory(tmp_path):
    script = tmp_path / "reader.py"
    script.write_text(READER)
    image = Image.new("L", (9_000, 9_000), 255)
    ImageDraw.Draw(image).text((900, 900), "Large words", font=ImageFont.load_default(size=500), fill=0)
    content = saved(image, "PNG")
    async with ParserPool(process_count=1, command=(sys.executable, str(script))) as pool:
        document = await pool.parse(content, display_name="a", options=ParseOptions(), deadline_seconds=200)
        assert texts(document) == ["Large words"]
        assert int(document.title) < 900 * 1024
        bomb = declared_png(20_000, 20_000, rows=20_000)
        with pytest.raises(DocumentError) as raised:
            await pool.parse(bomb, display_name="b", options=ParseOptions(), deadline_seconds=200)
    assert raised.value.metadata["limit"] == "max_pixels"
