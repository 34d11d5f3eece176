"""Contextual headers: what a chunk needs to be understood alone, beside its text and never in it."""

from collections.abc import Sequence

from corpusmesh_core.chunking.drafts import CountedDraft
from corpusmesh_core.chunking.pieces import Piece
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.chunking.tables import row_text
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

CONTEXT_SEPARATOR = " > "

_JOIN_TOKENS = 2
"""What a context and a text may cost more together than apart."""
_MAX_PARTS = 16
_MAX_PART_CHARACTERS = 300
_MAX_EXTRA_CHARACTERS = 400
"""Longest caption or table header that is looked at; far more than fits."""


class ContextWriter:
    """Writes the contexts of one document's chunks.

    A context is the headings above the chunk, outermost first, then the caption or header of its table where the text
    holds neither. The document's own title is left out, since it is embedded and searched in front of every chunk
    anyway, and so is a heading that the text begins with.
    """

    def __init__(
        self, document: ParsedDocument, blocks: Sequence[Block], counter: TextTokenizer, settings: BudgetSettings
    ) -> None:
        """Create a writer.

        Args:
            document: Its title is left out.
            blocks: The blocks that the pieces index.
            counter: The embedder's tokenizer.
            settings: Length of a context, and what the embedder reads.
        """
        self._title = document.title
        self._blocks = blocks
        self._counter = counter
        self._limit = settings.context_tokens
        self._embedder_max_tokens = settings.embedder_max_tokens

    def reserved_tokens(self) -> int:
        """Find the room that chunks must leave in what the embedder reads.

        Returns:
            Tokens of the longest chain of headings, at most the limit; 0 where there is no heading.
        """
        if not self._limit:
            return 0
        chains = {chain for path in {block.heading_path for block in self._blocks} if (chain := self._chain(path))}
        if not chains:
            return 0
        return min(max(self._counter.count_tokens(sorted(chains))), self._limit) + _JOIN_TOKENS

    def write(self, drafts: Sequence[CountedDraft]) -> list[str]:
        """Write the context of each draft.

        Args:
            drafts: Drafts with their texts.

        Returns:
            One context a draft, each as long as it may be at most; "" for none.
        """
        if not self._limit:
            return [""] * len(drafts)
        wanted = [self._context(entry) for entry in drafts]
        distinct = sorted({text for text in wanted if text})
        counts = dict(zip(distinct, self._counter.count_tokens(distinct), strict=True)) if distinct else {}
        shortened: dict[tuple[str, int], str] = {}
        contexts: list[str] = []
        for text, entry in zip(wanted, drafts, strict=True):
            room = min(self._limit, self._embedder_max_tokens - entry.token_count - _JOIN_TOKENS)
            if text and counts[text] > room:
                key = (text, room)
                if key not in shortened:
                    shortened[key] = self._shorten(text, room)
                contexts.append(shortened[key])
            else:
                contexts.append(text)
        return contexts

    def _chain(self, path: Sequence[str]) -> str:
        # The nearest headings say most, and more than these do not fit anyway.
        near = path[-_MAX_PARTS:]
        return CONTEXT_SEPARATOR.join(part[:_MAX_PART_CHARACTERS] for part in near if part != self._title)

    def _context(self, entry: CountedDraft) -> str:
        pieces = entry.draft.pieces
        first = pieces[min(entry.draft.copy_count, len(pieces) - 1)]
        path = self._blocks[first.block].heading_path
        while path and entry.text.startswith(path[-1]):
            path = path[:-1]
        parts = [chain] if (chain := self._chain(path)) else []
        parts.extend(self._table_extras(pieces, first))
        return CONTEXT_SEPARATOR.join(parts)

    def _table_extras(self, pieces: Sequence[Piece], first: Piece) -> list[str]:
        table = self._blocks[first.block].table
        if table is None or not first.is_row:
            return []
        extras: list[str] = []
        held = {piece.block for piece in pieces}
        for neighbour in (first.block - 1, first.block + 1):
            if 0 <= neighbour < len(self._blocks) and neighbour not in held:
                block = self._blocks[neighbour]
                if block.kind is BlockKind.CAPTION and not extras:
                    extras.append(block.text[:_MAX_EXTRA_CHARACTERS])
        if not any(piece.start < table.header_row_count for piece in pieces if piece.block == first.block):
            header = " / ".join(filter(None, map(row_text, table.rows[: table.header_row_count])))
            extras.append(header[:_MAX_EXTRA_CHARACTERS])
        return [" ".join(extra.split()) for extra in extras if extra.strip()]

    def _shorten(self, text: str, room: int) -> str:
        """Cut a context at its beginning: what is nearest to the chunk says most."""
        if room <= 0:
            return ""
        offsets = self._counter.token_offsets(text)
        if len(offsets) <= room:
            return ""
        begin = offsets[-room][0]
        whole = text.find(CONTEXT_SEPARATOR, max(begin - len(CONTEXT_SEPARATOR), 0))
        shorter = text[whole + len(CONTEXT_SEPARATOR) :] if whole >= 0 else text[begin:].strip()
        return shorter if shorter and self._counter.count_tokens([shorter])[0] <= room else ""
