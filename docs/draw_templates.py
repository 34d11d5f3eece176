"""Draws what chunk templates make of one page: `python docs/draw_templates.py` writes docs/templates.png.

The page is written here, read by the PDF parser and cut by each template; every chunk is a colour, with its number
where it begins.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import pypdfium2
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib import colors
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.router import parse_source
from corpusmesh_core.chunking import WordTokenCounter, chunk_document
from corpusmesh_core.documents import Chunk, ChunkRole, ParsedDocument
from corpusmesh_core.ports.parsing import ParseOptions

TARGET = Path(__file__).with_name("templates.png")
PANELS: Sequence[tuple[str, str, dict[str, object]]] = (
    ("general", "general", {}),
    ("title", "title", {}),
    ("manual, max_tokens 200", "manual", {"max_tokens": 200}),
    ("laws", "laws", {}),
    ("qa", "qa", {}),
    ("table", "table", {}),
    ("one", "one", {}),
    ("general, children_delimiter \\n", "general", {"children_delimiter": "\n"}),
)
SCALE = 1.0
PAGE_POINTS = (420.0, 410.0)
COLUMNS = 4
COLOURS = ((214, 66, 60), (44, 116, 196), (50, 150, 72), (208, 132, 20), (132, 74, 184), (16, 150, 160), (190, 60, 130))


def write_page() -> bytes:
    """Write the page: a house rule with articles, a table, and questions.

    Returns:
        A PDF of one page.
    """
    styles = getSampleStyleSheet()
    body = ParagraphStyle("body", parent=styles["BodyText"], fontSize=8, leading=10, spaceAfter=4)
    first = ParagraphStyle("first", parent=styles["Heading1"], fontSize=16, leading=19, spaceAfter=6)
    second = ParagraphStyle("second", parent=styles["Heading2"], fontSize=11.5, leading=14, spaceBefore=6, spaceAfter=3)
    rows = [["Room", "Seats", "Price"], ["Lake", "12", "80"], ["Forest", "30", "150"], ["Summit", "8", "60"]]
    table = Table(rows, colWidths=[110, 70, 70], rowHeights=13)
    table.setStyle(
        TableStyle(
            [
                ("GRID", (0, 0), (-1, -1), 0.5, colors.grey),
                ("FONTSIZE", (0, 0), (-1, -1), 8),
                ("FONTNAME", (0, 0), (-1, 0), "Helvetica-Bold"),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    story = [
        Paragraph("House Rules of the Meeting Centre", first),
        Paragraph("These rules hold for everybody who rents a room. They were last changed in spring.", body),
        Paragraph("1 Renting", second),
        Paragraph("Article 1. A room is rented by the day. Whoever rents it names a person who is in charge.", body),
        Paragraph(
            "Article 2. The price is paid before the first day. It is paid back when the room is given up a week"
            " before; later, half of it is kept, unless somebody else takes the room.",
            body,
        ),
        Paragraph("2 Rooms and prices", second),
        Paragraph("The prices below are for one day and hold for members and guests alike.", body),
        table,
        Spacer(1, 4),
        Paragraph("3 Order", second),
        Paragraph(
            "Article 3. The doors are closed at ten in the evening. Noise is kept down from eight on, in the"
            " rooms and in the garden.",
            body,
        ),
        Paragraph("Article 4. Whoever is in charge leaves the room as it was found and reports what was broken.", body),
        Paragraph("4 Questions", second),
        Paragraph("Q: May we bring food?", body),
        Paragraph("A: Yes, in every room but the library. The kitchen may be used by groups of up to thirty.", body),
        Paragraph("Q: Where do we park?", body),
        Paragraph("A: Behind the house. There are twenty places, and the gate opens at seven.", body),
    ]
    target = io.BytesIO()
    SimpleDocTemplate(
        target, pagesize=PAGE_POINTS, leftMargin=36, rightMargin=36, topMargin=30, bottomMargin=24, invariant=1
    ).build(story)
    return target.getvalue()


def draw_panel(page: Image.Image, caption: str, chunks: Sequence[Chunk]) -> Image.Image:
    """Draw the chunks of one template over the page.

    Args:
        page: The rendered page.
        caption: What stands above it.
        chunks: Chunks with boxes on the page; parents are framed, all others filled.

    Returns:
        The page with colours under a caption.
    """
    layer = Image.new("RGBA", page.size)
    pen = ImageDraw.Draw(layer)
    font = ImageFont.load_default(11)
    for chunk in chunks:
        colour = COLOURS[chunk.position % len(COLOURS)]
        for number, box in enumerate(chunk.boxes):
            corners = [box.left * SCALE - 2, box.top * SCALE - 1, box.right * SCALE + 2, box.bottom * SCALE + 1]
            if chunk.role is ChunkRole.PARENT:
                corners = [corners[0] - 9, corners[1] - 2, corners[2] + 9, corners[3] + 2]
                pen.rectangle(corners, outline=(60, 60, 60, 255), width=2)
                continue
            pen.rectangle(corners, fill=(*colour, 70), outline=(*colour, 255))
            if number == 0:
                left = corners[0] - 15
                pen.rectangle([left, corners[1], left + 14, corners[1] + 13], fill=(*colour, 255))
                pen.text((left + 7, corners[1] + 6), str(chunk.position), fill="white", font=font, anchor="mm")
    panel = Image.new("RGB", (page.width, page.height + 22), "white")
    panel.paste(Image.alpha_composite(page.convert("RGBA"), layer).convert("RGB"), (0, 22))
    frame = ImageDraw.Draw(panel)
    searched = sum(chunk.role is not ChunkRole.PARENT for chunk in chunks)
    frame.text(
        (8, 4),
        f"{caption}: {searched} chunk{'' if searched == 1 else 's'}",
        fill="black",
        font=ImageFont.load_default(14),
    )
    frame.rectangle([0, 0, panel.width - 1, panel.height - 1], outline=(170, 170, 170))
    return panel


def main() -> None:
    """Write the picture."""
    content = write_page()
    document: ParsedDocument = parse_source(Source(content, "rules.pdf", ParseOptions()))
    page = pypdfium2.PdfDocument(content)[0].render(scale=SCALE).to_pil()
    counter = WordTokenCounter()
    panels = [
        draw_panel(page, caption, chunk_document(document, counter, template=template, settings=settings))
        for caption, template, settings in PANELS
    ]
    width, height = panels[0].size
    sheet = Image.new("RGB", (COLUMNS * width, -(-len(panels) // COLUMNS) * height), "white")
    for index, panel in enumerate(panels):
        sheet.paste(panel, (index % COLUMNS * width, index // COLUMNS * height))
    sheet.quantize(96, dither=Image.Dither.NONE).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
