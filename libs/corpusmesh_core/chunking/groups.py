"""Groups of blocks: what a template decides about a document before its text is packed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from corpusmesh_core.chunking.pieces import SKIPPED_KINDS
from corpusmesh_core.documents import Block, BlockKind, ChunkRole

HEADING_KINDS = frozenset({BlockKind.TITLE, BlockKind.HEADING})

ANY_LEVEL = 99
"""A break level that takes in every heading."""


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks whose text is never mixed with that of another group.

    Attributes:
        blocks: Their indexes, ascending.
        break_level: A heading of this level, or one further out, starts a new chunk …
        break_tokens: … once the running chunk holds this many tokens of more than headings.
        repeated_blocks: How many of the first blocks are repeated at the start of every further chunk of the group,
            where they take at most a third of it.
        max_tokens: A budget of its own; 0 takes the settings' one.
        role: Role of its chunks.
        keywords: Keywords of its chunks.
        questions: Questions that its chunks answer.
        tags: Tags of its chunks with their weights.
        attributes: Attributes of its chunks.
        picture: Picture of its chunks; "" takes what the blocks show.
        block_kind: Kind of its chunks; None takes that of the blocks.
    """

    blocks: Sequence[int]
    break_level: int = ANY_LEVEL
    break_tokens: int = 96
    repeated_blocks: int = 0
    max_tokens: int = 0
    role: ChunkRole = ChunkRole.TEXT
    keywords: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    tags: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    picture: str = ""
    block_kind: BlockKind | None = None


def runs(blocks: Sequence[Block], begins: Callable[[int, Block], bool], *, first: int = 0) -> list[list[int]]:
    """Part blocks into runs; a run of nothing but headings goes with the one after it.

    Args:
        blocks: Blocks in reading order.
        begins: Whether a block, given with its index, begins a run.
        first: Index of the first block to take.

    Returns:
        Indexes of the blocks of each run, ascending.
    """
    parts: list[list[int]] = []
    has_body = True
    for index in range(first, len(blocks)):
        block = blocks[index]
        if has_body and (not parts or begins(index, block)):
            parts.append([])
            has_body = False
        parts[-1].append(index)
        has_body = has_body or is_body(block)
    return parts


def is_body(block: Block) -> bool:
    """Say whether a block is text that a reader would miss.

    Args:
        block: Any block.

    Returns:
        False for headings, running heads and feet, and figures without text.
    """
    return block.kind not in HEADING_KINDS and block.kind not in SKIPPED_KINDS and bool(block.text.strip())


def most_frequent_level(blocks: Iterable[Block]) -> int:
    """Find the heading level at which a document is written.

    Args:
        blocks: Its blocks.

    Returns:
        The level that most headings have, the outer one where two have as many; 0 where there are no headings.
    """
    counts: dict[int, int] = {}
    for block in blocks:
        if block.kind is BlockKind.HEADING:
            counts[block.level] = counts.get(block.level, 0) + 1
    return min(counts, key=lambda level: (-counts[level], level), default=0)
