"""The registry of chunk templates. To add one: write its module with a `TEMPLATE`, and add it to the tuple below."""

from collections.abc import Mapping
from types import MappingProxyType

from corpusmesh_core.chunking import (
    book,
    general,
    laws,
    mail,
    manual,
    one,
    paper,
    picture,
    presentation,
    qa,
    resume,
    table_rows,
    tag,
    title,
)
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import Chunk, ParsedDocument
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.embedding import TextTokenizer

DEFAULT_TEMPLATE = general.TEMPLATE.name

_MODULES = (
    general,
    title,
    paper,
    book,
    laws,
    manual,
    qa,
    table_rows,
    presentation,
    picture,
    one,
    mail,
    resume,
    tag,
)

TEMPLATES: Mapping[str, ChunkTemplate] = MappingProxyType(
    {module.TEMPLATE.name: module.TEMPLATE for module in _MODULES}
)


def find_template(name: str) -> ChunkTemplate:
    """Look a template up.

    Args:
        name: Its name.

    Returns:
        The template.

    Raises:
        InvalidArgumentError: CHUNK_TEMPLATE_UNKNOWN if there is none of that name.
    """
    template = TEMPLATES.get(name)
    if template is None:
        raise InvalidArgumentError(
            "CHUNK_TEMPLATE_UNKNOWN",
            f"There is no chunk template {name!r}. There are: {', '.join(sorted(TEMPLATES))}.",
            field="chunk_template",
            template=name,
        )
    return template


def chunk_with_warnings(
    document: ParsedDocument,
    counter: TextTokenizer,
    *,
    template: str = DEFAULT_TEMPLATE,
    settings: Mapping[str, object] = MappingProxyType({}),
) -> ChunkResult:
    """Cut a document by a template's name and configuration values.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        template: Name of the template.
        settings: Its settings; what is missing keeps its default.

    Returns:
        Chunks in reading order, and what did not fit the template.

    Raises:
        InvalidArgumentError: CHUNK_TEMPLATE_UNKNOWN, CHUNK_SETTING_UNKNOWN or CHUNK_SETTING_INVALID.
    """
    found = find_template(template)
    return found.chunk(document, counter, found.settings(settings))


def chunk_document(
    document: ParsedDocument,
    counter: TextTokenizer,
    *,
    template: str = DEFAULT_TEMPLATE,
    settings: Mapping[str, object] = MappingProxyType({}),
) -> list[Chunk]:
    """Cut a document like `chunk_with_warnings`, for callers who need the chunks alone.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        template: Name of the template.
        settings: Its settings; what is missing keeps its default.

    Returns:
        Chunks in reading order.

    Raises:
        InvalidArgumentError: CHUNK_TEMPLATE_UNKNOWN, CHUNK_SETTING_UNKNOWN or CHUNK_SETTING_INVALID.
    """
    return list(chunk_with_warnings(document, counter, template=template, settings=settings).chunks)
