"""Pages of the web as evidence: passages of a request, that are never written to the index.

A page belongs to no knowledge base and no document: its records name neither, have no publisher and no sources, so that
no filter of the index could ever let them pass, and carry their address among the attributes.
"""

import hashlib
from collections.abc import Sequence
from urllib.parse import urlsplit

from corpusmesh_core.chunking.general import GeneralChunkSettings, chunk_general
from corpusmesh_core.citation.weights import coverage, telling_terms, term_weights
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.ports.index import Candidate
from corpusmesh_core.records import Ordinal, Record, RecordKind
from corpusmesh_core.research.rough_tokens import RoughTokenizer
from corpusmesh_core.text import analyze, script_of

PASSAGE_TOKENS = 200
_NO_ORDINAL = Ordinal(0)
_COUNTER = RoughTokenizer()


def page_records(url: str, document: ParsedDocument, *, title: str = "", max_passages: int) -> tuple[Record, ...]:
    """Cut a page into passages.

    Args:
        url: Its address.
        document: What a parser made of it.
        title: Its title according to the search engine, for a page that names none.
        max_passages: Where to stop.

    Returns:
        Records in reading order; none for a page without text.
    """
    chunks = chunk_general(document, _COUNTER, GeneralChunkSettings(max_tokens=PASSAGE_TOKENS)).chunks
    name = document.title or title
    return tuple(
        _record(url, name, chunk.text, chunk.position, heading_path=chunk.heading_path, page=chunk.page)
        for chunk in chunks[:max_passages]
    )


def text_document(title: str, text: str) -> ParsedDocument:
    """Make a document of a page's plain text.

    Args:
        title: Its title.
        text: Its text, paragraphs apart by line ends.

    Returns:
        The document.
    """
    blocks = tuple(Block(BlockKind.PARAGRAPH, line.strip()) for line in text.splitlines() if line.strip())
    return ParsedDocument("text/plain", title, blocks)


def text_record(url: str, title: str, text: str) -> Record:
    """Make the record of what a search engine shows of a page that cannot be read itself.

    Args:
        url: Address of the page.
        title: Its title.
        text: What is shown.

    Returns:
        The record.
    """
    return _record(url, title, text, 0)


def _record(
    url: str, title: str, text: str, position: int, *, heading_path: tuple[str, ...] = (), page: int = 0
) -> Record:
    digest = hashlib.sha256(url.encode()).hexdigest()[:20]
    return Record(
        record_id=f"web-{digest}-{position}",
        kind=RecordKind.WEB_PAGE,
        knowledge_base_id="",
        publisher=_NO_ORDINAL,
        sources=(),
        text=text,
        title=title,
        display_name=title or urlsplit(url).hostname or "",
        heading_path=heading_path,
        page=page,
        position=position,
        token_count=_COUNTER.count_tokens([text])[0],
        attributes={"url": url},
    )


def passage_text(record: Record) -> str:
    """Write a passage as it is embedded: under its title and headings.

    Args:
        record: The passage.

    Returns:
        The text.
    """
    above = " > ".join(dict.fromkeys(part for part in (record.title, *record.heading_path) if part))
    return f"{above}\n{record.text}" if above else record.text


def best_by_terms(question: str, records: Sequence[Record], *, max_count: int) -> tuple[Record, ...]:
    """Choose the passages that are worth embedding.

    Args:
        question: What is looked for.
        records: Passages of all pages.
        max_count: How many.

    Returns:
        Those that cover most of the question's terms by their rarity among the passages, in the order given.
    """
    if len(records) <= max_count:
        return tuple(records)
    wanted = telling_terms(question)
    held = [frozenset(analyze(passage_text(record)).fine) for record in records]
    weights = term_weights(held)
    absent = max(weights.values(), default=1.0)
    scores = [coverage(wanted, terms, weights, absent) for terms in held]
    best = sorted(range(len(records)), key=lambda index: (-scores[index], index))[:max_count]
    return tuple(records[index] for index in sorted(best))


def web_candidates(question: str, records: Sequence[Record], cosines: Sequence[float] | None) -> tuple[Candidate, ...]:
    """Make candidates of passages, such as the index makes of its records.

    Args:
        question: What is looked for.
        records: The passages.
        cosines: Cosine of each with the question; None where no vectors could be made.

    Returns:
        Candidates in the order given; the lexical score is the share of the question's terms that they cover.
    """
    wanted = telling_terms(question)
    terms = [analyze(passage_text(record)).fine for record in records]
    weights = term_weights([frozenset(held) for held in terms])
    absent = max(weights.values(), default=1.0)
    lexical = [coverage(wanted, frozenset(held), weights, absent) for held in terms]
    by_words = _ranks(lexical)
    by_vector = _ranks(cosines) if cosines is not None else [0] * len(records)
    return tuple(
        Candidate(
            record=record,
            content_terms=" ".join(terms[index]),
            script=script_of(terms[index]).value,
            lexical_score=lexical[index],
            lexical_rank=by_words[index] if lexical[index] > 0.0 else 0,
            cosine=cosines[index] if cosines is not None else None,
            vector_rank=by_vector[index],
        )
        for index, record in enumerate(records)
    )


def _ranks(scores: Sequence[float]) -> list[int]:
    order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
    ranks = [0] * len(scores)
    for rank, index in enumerate(order, start=1):
        ranks[index] = rank
    return ranks
