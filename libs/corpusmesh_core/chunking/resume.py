"""Template `resume`: a curriculum vitae's sections, each with the person's name and addresses."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh_core.chunking.assembly import chunk_groups
from corpusmesh_core.chunking.groups import HEADING_KINDS, Group
from corpusmesh_core.chunking.headings import split_lines, with_levels
from corpusmesh_core.chunking.settings import RunningTextSettings
from corpusmesh_core.chunking.template import ChunkResult, ChunkTemplate
from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.ports.embedding import TextTokenizer

_SECTIONS = {
    "summary": "summary|profile|objective|about me|personal statement|"
    "自我评价|个人简介|个人总结|求职意向|求职目标|自我介绍",
    "personal": "personal (?:details|information|data)|contact(?: details| information)?|个人信息|基本信息|联系方式",
    "experience": "(?:work|professional|relevant)? ?(?:experience|employment)(?: history)?|work history|career history|"
    "工作经历|工作经验|实习经历|职业经历",
    "projects": "(?:selected |personal )?projects?(?: experience)?|项目经历|项目经验",
    "education": "education(?: and training)?|academic background|qualifications|教育经历|教育背景|学历",
    "skills": "(?:technical |key |core )?(?:skills|competencies)(?: and tools)?|技能|专业技能|技能特长|个人技能",
    "languages": "languages?(?: skills)?|语言能力|外语水平",
    "certificates": "certifications?|certificates|licenses|证书|资格证书|所获证书",
    "awards": "awards?(?: and honou?rs)?|honou?rs(?: and awards)?|获奖情况|荣誉奖项|奖项|所获荣誉",
    "publications": "publications|patents|论文|发表论文|专利|学术成果",
    "interests": "interests|hobbies(?: and interests)?|兴趣爱好|爱好",
    "references": "references|referees|推荐人|证明人",
}
_PATTERNS = {name: re.compile(f"(?:{words})\\s*[:：]?", re.IGNORECASE) for name, words in _SECTIONS.items()}
_MAX_SECTION_CHARACTERS = 40
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PHONE = re.compile(r"(?<![\d.])\+?\(?\d[\d\s().-]{6,18}\d(?![\d.])")
_NAME_LABEL = re.compile(r"(?:姓\s*名|name)\s*[:：]\s*([^\s|,，;；：:][^\n|,，;；]{0,40})", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d_][^\d@:：/|]{1,40}")
_MAX_HEAD_BLOCKS = 12
_MAX_HEAD_CHARACTERS = 2_000
_DIGITS_OF_TWO_YEARS = 8


@dataclass(frozen=True, slots=True)
class ResumeChunkSettings(RunningTextSettings):
    """Settings of the template `resume`, with those of `RunningTextSettings`.

    Sections are known by their names in English and Chinese (experience, education, skills, 工作经历, 教育背景, …) and
    are never mixed, however short.
    """


def chunk_resume(document: ParsedDocument, counter: TextTokenizer, settings: ResumeChunkSettings) -> ChunkResult:
    """Cut a curriculum vitae into its sections.

    Args:
        document: What a parser made.
        counter: The embedder's tokenizer.
        settings: Budget.

    Returns:
        Chunks in reading order, each with the attributes `section`, and `name`, `email` and `phone` where they were
        found; no text is lost.
    """
    parted = split_lines(document.blocks, lambda before, line: bool(_section(line) or _section(before)))
    found = {index: name for index, block in enumerate(parted) if (name := _section_of(block))}
    blocks = with_levels(parted, dict.fromkeys(found, 1))
    person = _person(document, blocks)
    groups: list[Group] = []
    part: list[int] = []
    section = "personal"
    for index in range(len(blocks)):
        if index in found and part:
            groups.append(Group(part, attributes=person | {"section": section}))
            part = []
        section = found.get(index, section)
        part.append(index)
    groups.append(Group(part, attributes=person | {"section": section}))
    return chunk_groups(document, blocks, groups, counter, settings)


def _section_of(block: Block) -> str:
    is_text = block.kind in HEADING_KINDS or block.kind is BlockKind.PARAGRAPH
    return _section(block.text.strip()) if is_text else ""


def _section(line: str) -> str:
    if not line or len(line) > _MAX_SECTION_CHARACTERS:
        return ""
    bare = line.strip(" \t\u3000*#-–—|·•■◆●【】[]")
    return next((name for name, pattern in _PATTERNS.items() if pattern.fullmatch(bare)), "")


def _person(document: ParsedDocument, blocks: Sequence[Block]) -> dict[str, str]:
    head = "\n".join(block.text[:_MAX_HEAD_CHARACTERS] for block in blocks[:_MAX_HEAD_BLOCKS])
    email = _EMAIL.search(head)
    found = {
        "name": _name(document, blocks, head),
        "email": email.group() if email else "",
        "phone": _phone(head),
    }
    return {key: value for key, value in found.items() if value}


def _phone(head: str) -> str:
    for match in _PHONE.finditer(head):
        # Two years with a dash between them have eight digits.
        if sum(map(str.isdigit, match.group())) > _DIGITS_OF_TWO_YEARS:
            return " ".join(match.group().split())
    return ""


def _name(document: ParsedDocument, blocks: Sequence[Block], head: str) -> str:
    labelled = _NAME_LABEL.search(head)
    if labelled is not None:
        return labelled.group(1).strip()
    for block in blocks[:2]:
        line = block.text.split("\n", 1)[0].strip()
        is_name = _NAME.fullmatch(line) and len(line.split()) <= 5 and not _section(line)
        if is_name and line.casefold() not in {"curriculum vitae", "resume", "résumé", "cv", "个人简历", "简历"}:
            return line
    return document.metadata.get("author", "")


TEMPLATE = ChunkTemplate(
    name="resume",
    summary="The sections of a curriculum vitae in English or Chinese, each with the person's name and addresses.",
    settings_type=ResumeChunkSettings,
    chunk=chunk_resume,
)
