"""DOCX: body, notes, running heads, charts and embedded documents of a Word package."""

import posixpath
import zipfile

from lxml import etree

from corpusmesh_adapters.parsers.builder import DocumentBuilder, Source
from corpusmesh_adapters.parsers.docx_styles import W, WordStyles
from corpusmesh_adapters.parsers.docx_text import M, WordText
from corpusmesh_adapters.parsers.embedded import Parse, add_inner, object_content
from corpusmesh_adapters.parsers.failures import corrupt
from corpusmesh_adapters.parsers.formats import Format
from corpusmesh_adapters.parsers.ooxml import Relation, core_properties, part_root, relations
from corpusmesh_adapters.parsers.packages import open_package, read_member, refuse_entities
from corpusmesh_core.documents import BlockKind, ParsedDocument
from corpusmesh_core.errors import DocumentError

_DEFAULT_MAIN = "word/document.xml"
_EMBEDDED_KINDS = frozenset(["package", "oleObject", "aFChunk"])


def parse_docx(source: Source, parse_inner: Parse) -> ParsedDocument:
    """Read a Word document.

    Args:
        source: The document.
        parse_inner: Reads a document embedded in it.

    Returns:
        Headings by style or outline level, paragraphs, lists with their numbers, tables with spans, captions,
        formulas, figures, notes behind the paragraph that refers to them, text boxes; then embedded documents under
        their names; running heads and feet once at the end. Pages are those that Word noted when it last saved.

    Raises:
        DocumentError: DOCUMENT_CORRUPT, DOCUMENT_ENCRYPTED, DOCUMENT_EMPTY or DOCUMENT_RESOURCE_LIMIT.
    """
    with open_package(source.content, source.limits) as package:
        refuse_entities(package)
        names = frozenset(package.namelist())
        main = _main_part(package, names)
        related = relations(package, names, main)
        builder = DocumentBuilder(Format.DOCX, source.limits, keep_pictures=source.options.keep_pictures)
        styles = _styles(package, related)
        text = WordText(builder, source, package, related, styles, _notes(package, related))
        body = part_root(package, main).find(f"{W}body")
        if body is None:
            raise corrupt("its main part has no body")
        text.read(body)
        title = builder.first_text(BlockKind.TITLE)
        metadata = core_properties(package, names)
        _add_embedded(builder, source, package, related, parse_inner, metadata)
        builder.close_headings(1)
        _add_running_text(builder, package, related)
    return builder.build(
        title=metadata.pop("title", "") or title,
        page_count=text.page_count,
        metadata=metadata,
        empty_detail="it has pictures at most",
    )


def _main_part(package: zipfile.ZipFile, names: frozenset[str]) -> str:
    for relation in relations(package, names, "").values():
        if relation.kind == "officeDocument" and relation.target:
            return relation.target
    if _DEFAULT_MAIN not in names:
        raise corrupt("its main part is missing")
    return _DEFAULT_MAIN


def _targets(related: dict[str, Relation], *kinds: str) -> list[str]:
    return list(dict.fromkeys(each.target for each in related.values() if each.kind in kinds and each.target))


def _styles(package: zipfile.ZipFile, related: dict[str, Relation]) -> WordStyles:
    styles = WordStyles()
    for name in _targets(related, "styles"):
        styles.learn_styles(part_root(package, name))
    for name in _targets(related, "numbering"):
        styles.learn_numbering(part_root(package, name))
    return styles


def _notes(package: zipfile.ZipFile, related: dict[str, Relation]) -> dict[str, etree._Element]:
    notes: dict[str, etree._Element] = {}
    for kind in ("footnote", "endnote"):
        for name in _targets(related, f"{kind}s"):
            for note in part_root(package, name).iter(f"{W}{kind}"):
                if not note.get(f"{W}type"):  # separators have a type
                    notes[f"{kind}:{note.get(f'{W}id', '')}"] = note
    return notes


def _add_running_text(builder: DocumentBuilder, package: zipfile.ZipFile, related: dict[str, Relation]) -> None:
    for kind, block_kind in (("header", BlockKind.HEADER), ("footer", BlockKind.FOOTER)):
        seen: set[str] = set()
        for name in sorted(_targets(related, kind)):
            for paragraph in part_root(package, name).iter(f"{W}p"):
                text = "".join(node.text or "" for node in paragraph.iter(f"{W}t", f"{M}t"))
                if text.strip() and not text.strip().isdecimal() and text not in seen:
                    seen.add(text)
                    builder.add(block_kind, text)


def _add_embedded(
    builder: DocumentBuilder,
    source: Source,
    package: zipfile.ZipFile,
    related: dict[str, Relation],
    parse_inner: Parse,
    metadata: dict[str, str],
) -> None:
    targets = _targets(related, *_EMBEDDED_KINDS)
    if not targets:
        return
    metadata["embedded_file_count"] = str(len(targets))
    for number, target in enumerate(targets, 1):
        if number > source.limits.max_attachments:
            builder.warn(f"Embedded files beyond max_attachments={source.limits.max_attachments} were not read.")
            break
        try:
            content, name = object_content(read_member(package, target), posixpath.basename(target))
        except DocumentError as error:
            builder.warn(f"Embedded file {number} was not read: {error.message}")
            continue
        add_inner(builder, source, parse_inner, name, content, label=f"Embedded file {number}")
