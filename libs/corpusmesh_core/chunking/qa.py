"""Template `qa`: one chunk a pair of question and answer, from tables, marked lines or headings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group, is_body
from corpusmesh_core.chunking.headings import split_lines
from corpusmesh_core.chunking.rows import SourceRow, find_column, read_rows
from corpusmesh_core.chunking.settings import BudgetSettings
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate, bounded_warnings
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_QUESTION_COLUMNS = frozenset({"question", "questions", "q", "query", "problem", "问题", "提问", "问", "題目", "题目"})
_ANSWER_COLUMNS = frozenset({"answer", "answers", "a", "reply", "response", "答案", "回答", "答", "解答", "答复"})
_QUESTION_LINE = re.compile(
    r"(?:(?:Q|Question)\s{0,2}\d{0,4}\s?[:：]|(?:问题?|提问)\s?[0-9一二三四五六七八九十]{0,3}\s?[:：])\s*",
    re.IGNORECASE,
)
_ANSWER_LINE = re.compile(
    r"(?:(?:A|Answer)\s{0,2}\d{0,4}\s?[:：]|(?:回?答案?|解答)\s?[0-9一二三四五六七八九十]{0,3}\s?[:：])\s*",
    re.IGNORECASE,
)
_HAN = re.compile("[\u3400-\u9fff]")
_NEVER_BREAK = 1 << 30
_MAX_QUESTION_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class QaChunkSettings(BudgetSettings):
    """Settings of the template `qa`, those of `BudgetSettings`.

    A pair over the budget is split, and its question repeated above every part where it takes at most a third of it.
    """


def chunk_qa(document: ParsedDocument, counter: TextTokenizer, settings: QaChunkSettings) -> ChunkResult:
    r"""Make one chunk of each question with its answer.

    Pairs come from lines that begin with "Q:" and "A:" ("问：", "答："); else from rows of tables and of lines with
    tabs, where they name a column of questions and one of answers or are most of the document; else from headings,
    whose text below them is the answer. Headings above a pair are in its heading path and not in its text; the
    document's title is left out.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget.

    Returns:
        Chunks in reading order with text "Question: …\nAnswer: …" ("问题：…\n回答：…" for Chinese) and the question
        in `questions`. Text that belongs to no pair is kept in chunks of its own; warnings name the rows and questions
        that are no pair.
    """
    reader = _PairReader()
    blocks = [block for block in document.blocks if block.kind is not BlockKind.TITLE or block.text != document.title]
    tables = [read_rows(block) for block in blocks]
    marked = split_lines(blocks, lambda _, line: bool(_QUESTION_LINE.match(line) or _ANSWER_LINE.match(line)))
    if any(_QUESTION_LINE.match(block.text) for block in marked) and any(
        _ANSWER_LINE.match(block.text) for block in marked
    ):
        reader.read_lines(marked)
    elif _holds_pairs(blocks, tables):
        reader.read_tables(blocks, tables)
    else:
        reader.read_headings(blocks)
    result = chunk_groups(document, reader.blocks, reader.groups, counter, settings)
    warnings = list(reader.warnings)
    if result.chunks and not any(group.questions for group in reader.groups):
        warnings.append("No pair of question and answer was found; the text was cut as running text.")
    return ChunkResult(result.chunks, bounded_warnings([*warnings, *result.warnings]))


def _holds_pairs(blocks: Sequence[Block], tables: Sequence[list[SourceRow]]) -> bool:
    """Say whether the rows of a document are its pairs: a table may also be part of an answer."""
    if any(rows and min(_named_columns(rows[0])) >= 0 for rows in tables):
        return True
    wide = any(sum(map(bool, row.cells)) > 1 for rows in tables for row in rows)
    inside = sum(len(block.text) for block, rows in zip(blocks, tables, strict=True) if rows)
    return wide and 2 * inside >= sum(len(block.text) for block in blocks)


def _has_section(blocks: Sequence[Block], index: int) -> bool:
    """Say whether a heading has anything below it that carries it in its path."""
    if blocks[index].kind is not BlockKind.HEADING or index + 1 == len(blocks):
        return False
    following = blocks[index + 1]
    return following.kind is not BlockKind.HEADING or following.level > blocks[index].level


def _named_columns(header: SourceRow) -> tuple[int, int]:
    return find_column(header.cells, _QUESTION_COLUMNS), find_column(header.cells, _ANSWER_COLUMNS)


class _PairReader:
    """Collects pairs, and the text between them."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.groups: list[Group] = []
        self.warnings: list[str] = []
        self._rest: list[Block] = []
        self._pending: list[Block] = []  # headings that go with what comes first below them
        self._question: Block | None = None
        self._answer: list[Block] = []

    def read_tables(self, blocks: Sequence[Block], tables: Sequence[list[SourceRow]]) -> None:
        for block, rows in zip(blocks, tables, strict=True):
            self._close()
            if rows:
                self._read_rows(rows)
            elif block.kind is BlockKind.HEADING:
                self._pending.append(block)
            else:
                self._keep(block)
        self._finish()

    def _read_rows(self, rows: Sequence[SourceRow]) -> None:
        question, answer = _named_columns(rows[0])
        named = question >= 0 and answer >= 0
        for row in rows[1:] if named else rows:
            if named:
                fields = [row.cells[column] for column in (question, answer) if column < len(row.cells)]
                fields += [
                    f"{rows[0].cells[column]}: {text}" if column < len(rows[0].cells) else text
                    for column, text in enumerate(row.cells)
                    if text and column not in (question, answer)
                ]
            else:
                fields = [text for text in row.cells if text]
            self._read_fields(row, fields)

    def _read_fields(self, row: SourceRow, fields: Sequence[str]) -> None:
        if len(fields) > 1 and fields[0] and fields[1]:
            self._close()
            self._question = row.block(BlockKind.PARAGRAPH, fields[0])
            self._answer = [row.block(BlockKind.LIST_ITEM, text) for text in fields[1:]]
            return
        text = "\n".join(filter(None, fields))
        if self._question is not None and not (len(fields) > 1 and fields[0]):
            self._answer.append(row.block(BlockKind.LIST_ITEM, text))
            return
        where = f" on page {row.page}" if row.page else ""
        self.warnings.append(f"Row {row.number} of a table{where} is no pair of question and answer.")
        self._close()
        self._keep(row.block(BlockKind.PARAGRAPH, text))

    def read_lines(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            question, answer = _QUESTION_LINE.match(block.text), _ANSWER_LINE.match(block.text)
            if question is not None:
                self._close()
                self._question = replace(block, kind=BlockKind.PARAGRAPH, text=block.text[question.end() :])
            elif block.kind in HEADING_KINDS:
                self._close()
                self._pending.append(block)
            elif self._question is None:
                self._keep(block)
            elif answer is not None:
                self._answer.append(replace(block, kind=BlockKind.LIST_ITEM, text=block.text[answer.end() :]))
            elif self._answer:
                self._answer.append(block)
            else:
                text = f"{self._question.text}\n{block.text}"
                self._question = replace(self._question, text=text, boxes=self._question.boxes + block.boxes)
        self._finish()

    def read_headings(self, blocks: Sequence[Block]) -> None:
        for index, block in enumerate(blocks):
            if block.kind is not BlockKind.HEADING:
                (self._rest if self._question is None else self._answer).append(block)
                continue
            self._close(is_heading=True)
            if _has_section(blocks, index):
                self._question = block
            else:
                self._rest.append(block)
        self._close(is_heading=True)
        self._close_rest()

    def _keep(self, *blocks: Block) -> None:
        """Keep text that belongs to no pair, with the headings above it."""
        self._rest.extend([*self._pending, *blocks])
        self._pending = []

    def _finish(self) -> None:
        self._close()
        self._keep()
        self._close_rest()

    def _close(self, *, is_heading: bool = False) -> None:
        question, answer = self._question, self._answer
        self._question, self._answer = None, []
        if question is None:
            return
        if not any(map(is_body, answer)):
            if is_heading and not answer:
                # Its text stands in the heading paths of what is below it.
                return
            if not is_heading:
                where = f" on page {question.page}" if question.page else ""
                where += f" in line {question.line}" if question.line else ""
                self.warnings.append(f"A question{where} has no answer.")
            self._keep(question, *answer)
            return
        # The headings above a pair are in its heading path.
        self._pending = []
        self._close_rest()
        self._add_pair(question, answer)

    def _add_pair(self, question: Block, answer: list[Block]) -> None:
        asked = " ".join(question.text.split())
        is_nested = question.kind in HEADING_KINDS and not asked.endswith(("?", "？"))
        nested = " > ".join((*question.heading_path, asked)) if is_nested else asked
        is_chinese = _HAN.search(asked) is not None
        labels = ("问题：", "回答：") if is_chinese else ("Question: ", "Answer: ")
        # The blocks of a pair stand under the headings above the question, and the question is text, no heading.
        path = question.heading_path
        first = next(index for index, block in enumerate(answer) if is_body(block))
        begin = len(self.blocks)
        self.blocks.append(replace(question, kind=BlockKind.PARAGRAPH, text=labels[0] + question.text.strip()))
        for index, block in enumerate(answer):
            block = replace(block, heading_path=path)
            if index == first and block.table is None:
                block = replace(block, kind=BlockKind.LIST_ITEM, text=labels[1] + block.text.strip())
            self.blocks.append(block)
        self.groups.append(
            Group(
                range(begin, len(self.blocks)),
                break_tokens=_NEVER_BREAK,
                repeated_blocks=1,
                questions=(nested[:_MAX_QUESTION_CHARACTERS],),
                block_kind=BlockKind.PARAGRAPH,
            )
        )

    def _close_rest(self) -> None:
        if self._rest:
            begin = len(self.blocks)
            self.blocks.extend(self._rest)
            self.groups.append(Group(range(begin, len(self.blocks))))
            self._rest = []


TEMPLATE = ChunkTemplate(
    name="qa",
    summary="One chunk a question with its answer, from tables, lines with Q: and A:, or headings.",
    settings_type=QaChunkSettings,
    chunk=chunk_qa,
)
