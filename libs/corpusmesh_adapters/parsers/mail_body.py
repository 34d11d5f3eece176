"""What mails of every format share: the block of headers, one form of the body, the depth of quotations."""

import re
from collections.abc import Mapping

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source, clean, one_line
from corpusmesh_adapters.parsers.html_blocks import FindPicture, HtmlWalker
from corpusmesh_adapters.parsers.html_tree import parse_html_tree
from corpusmesh_core.documents import BlockKind

# A plain part this much shorter than the HTML part is a stub ("your reader cannot show HTML").
_STUB_SHARE = 0.2
_QUOTE = re.compile(r"^[ ]?((?:>[ ]?)+)")


def add_headers(builder: DocumentBuilder, headers: Mapping[str, str]) -> None:
    """Add the headers of a mail as one block.

    Args:
        builder: Where to.
        headers: Values by name; empty ones are left out.
    """
    builder.add(BlockKind.PARAGRAPH, "\n".join(f"{name}: {value}" for name, value in headers.items() if value))


def add_body(
    builder: DocumentBuilder, source: Source, plain_text: str, page: str, *, find_picture: FindPicture | None = None
) -> None:
    """Add the body of a mail once: its plain text, unless that is a stub beside the page.

    Args:
        builder: Where to.
        source: The mail.
        plain_text: Its plain form, "" if there is none.
        page: Its HTML form, "" if there is none.
        find_picture: Finds the pictures of the page.
    """
    tree = parse_html_tree(page, source.limits) if page else None
    if tree is not None and tree.body is not None:
        visible = one_line(tree.body.text(deep=True))
        if len(one_line(plain_text)) < _STUB_SHARE * len(visible):
            HtmlWalker(builder, source, find_picture=find_picture).walk_tree(tree)
            return
    add_quoted_paragraphs(builder, plain_text, max_depth=source.limits.max_depth)


def add_quoted_paragraphs(builder: DocumentBuilder, text: str, *, max_depth: int) -> None:
    """Add the paragraphs of a mail's plain text; the marks of quoted lines become the blocks' level.

    Args:
        builder: Where to.
        text: The text.
        max_depth: Deepest level; what is quoted more often has this one.
    """
    lines: list[str] = []
    depth = 0
    for line in clean(text).split("\n"):
        match = _QUOTE.match(line)
        quoted = min(match.group(1).count(">"), max_depth) if match else 0
        body = line[match.end() :] if match else line
        if lines and (quoted != depth or not body.strip()):
            builder.add(BlockKind.PARAGRAPH, "\n".join(lines), level=depth)
            lines.clear()
        depth = quoted
        if body.strip():
            lines.append(body)
    if lines:
        builder.add(BlockKind.PARAGRAPH, "\n".join(lines), level=depth)
