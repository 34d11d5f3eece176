"""Template `email`: headers, body, quoted replies and attachments, each apart."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group
from corpusmesh_core.chunking.headings import split_lines
from corpusmesh_core.chunking.settings import RunningTextSettings, require_choice
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import Block, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_QUOTED = ("apart", "drop")
_HEADER_NAMES = ("subject", "from", "to", "cc", "date")
_MAX_ATTRIBUTE_CHARACTERS = 200
_QUOTE_LINE = re.compile(r">")
_QUOTE_BEGIN = re.compile(
    r"(?:-{2,}\s*(?:original message|forwarded message|原始邮件|转发邮件|ursprüngliche nachricht)\s*-{2,}"
    r"|on\b.{4,160}\bwrote\s*:[ \t]*(?:\n|\Z)"
    r"|在.{4,80}写道\s*[:：][ \t]*(?:\n|\Z)"
    r"|_{10,}[ \t]*(?:\n|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_REPLY_HEADER = re.compile(r"(?:from|发件人|von)\s*[:：]", re.IGNORECASE)
_REPLY_HEADER_LATER = re.compile(r"(?:sent|date|to|subject|发送时间|收件人|主题|gesendet)\s*[:：]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EmailChunkSettings(RunningTextSettings):
    """Settings of the template `email`, with those of `RunningTextSettings`.

    Attributes:
        quoted: "apart" keeps quoted replies in chunks of their own (attribute `section` = "quoted"), "drop" leaves them
            out.
    """

    quoted: str = "apart"

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises:
            InvalidArgumentError: CHUNK_SETTING_INVALID with the field.
        """
        RunningTextSettings.__post_init__(self)
        require_choice("quoted", self.quoted, _QUOTED)


def chunk_email(document: ParsedDocument, counter: TextTokenizer, settings: EmailChunkSettings) -> ChunkResult:
    """Cut a mail.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget, quoted replies.

    Returns:
        Chunks in reading order: headers and body, quoted replies, each attachment. All carry subject, sender,
        recipients and date as attributes, those of an attachment its name too. No text is lost but quoted replies that
        the settings drop.
    """
    # The first block is the mail's own header, which looks like that of a quoted mail.
    blocks = [*document.blocks[:1], *split_lines(document.blocks[1:], _seam)]
    headers = {
        name: document.metadata[name][:_MAX_ATTRIBUTE_CHARACTERS]
        for name in _HEADER_NAMES
        if document.metadata.get(name)
    }
    groups: list[Group] = []
    for section, attachment, part in _parts(blocks, document.metadata.get("attachments", "")):
        if section == "quoted" and settings.quoted == "drop":
            continue
        attributes = headers | {"section": section} | ({"attachment": attachment} if attachment else {})
        groups.append(Group(part, attributes=attributes))
    return chunk_groups(document, blocks, groups, counter, settings)


def _parts(blocks: Sequence[Block], attachments: str) -> list[tuple[str, str, list[int]]]:
    parts: list[tuple[str, str, list[int]]] = []
    attachment = ""
    is_reply = False
    for index, block in enumerate(blocks):
        if block.kind in HEADING_KINDS and not block.heading_path and block.text and block.text in attachments:
            attachment, is_reply = block.text, False
        # What is quoted from "On … wrote:" on goes to the end; lines with ">" are quoted each for itself.
        is_reply = is_reply or (index > 0 and not attachment and _begins_reply(block.text))
        is_quoted = is_reply or (not attachment and _QUOTE_LINE.match(block.text.lstrip()) is not None)
        key = ("attachment" if attachment else "quoted" if is_quoted else "body", attachment)
        if not parts or parts[-1][:2] != key:
            parts.append((*key, []))
        parts[-1][2].append(index)
    return parts


def _begins_reply(text: str) -> bool:
    text = text.lstrip()
    if _QUOTE_BEGIN.match(text[:400]):
        return True
    return bool(_REPLY_HEADER.match(text)) and any(
        _REPLY_HEADER_LATER.match(line.strip()) for line in text[:2_000].split("\n")[1:4]
    )


def _seam(before: str, line: str) -> bool:
    if _QUOTE_LINE.match(line) is not None:
        return not any(pattern.match(before[:400]) for pattern in (_QUOTE_LINE, _QUOTE_BEGIN))
    return any(pattern.match(line[:400]) for pattern in (_QUOTE_BEGIN, _REPLY_HEADER)) or bool(
        _QUOTE_LINE.match(before)
    )


TEMPLATE = ChunkTemplate(
    name="email",
    summary="A mail's headers and body, its quoted replies and each attachment apart, all with sender and subject.",
    settings_type=EmailChunkSettings,
    chunk=chunk_email,
)
