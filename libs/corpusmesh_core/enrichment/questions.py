"""Questions that a chunk answers, without a model: by rules over definitions, facts and headings.

HyPE (seed `003_67b62910d2d3a085.txt`): questions of users look more like other questions than like the text that
answers them, so each question gets a vector that leads to its chunk. Rules see only what is said in a plain form; a
chunk without such a sentence or heading gets no question, and most chunks have none (measured: one in five has).

Honest numbers (multilingual-e5-small, 480 passages, 593 questions; a passage scores by the best of its own vector and
its questions'): recall@10 from 0.662 to 0.652 for English and from 0.503 to 0.506 for Chinese, so that these questions
are worth their words (BM25 recall@5 from 0.619 to 0.634 on mh_small) more than their vectors. A model's are another
matter.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment.headings import is_list_heading, topic_of
from corpusmesh_core.enrichment.statements import is_chinese, statements_of
from corpusmesh_core.text import analyze, is_stop_word

MAX_QUESTION_CHARACTERS: Final = 300
_MAX_SUBJECT_WORDS: Final = 8
_MAX_SUBJECT_IDEOGRAPHS: Final = 16
_SUBJECT: Final = r"(?P<subject>[^,;:!?，；：]{2,80}?)"
_PRONOUNS: Final = """
it this that these those he she they we you i there here what which who such one some all each both most many another
others its his her their our
"""
_NO_SUBJECT: Final = frozenset(_PRONOUNS.split())
_NO_SUBJECT_CHINESE: Final = re.compile(
    r"^(?:他|她|它|这|那|此|其|该|本|我|你|您|有|如|若|当|在|对|由|从|因|但|而|并|且|或|以|所以|如果|不|也|都|就|还|又|如何|什么|"
    r"于是|凡|上述|下列|前款|前项|一般|通常|目前|首先|其次|最后|另外|此外|同时)"
)
_FUNCTION_TAIL: Final = re.compile(r"(?:的|了|着|就|也|都|则|又|还|不|只|仅|可|会|要|将|应|能|便)$")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: "re.Pattern[str]"
    question: str


_ENGLISH: Final = (
    _Rule(re.compile(rf"^{_SUBJECT}\s+(?:stands|stood) for\b"), "What does {subject} stand for?"),
    _Rule(re.compile(rf"^{_SUBJECT}\s+consists? of\b"), "What does {subject} consist of?"),
    _Rule(
        re.compile(rf"^{_SUBJECT}\s+(?P<be>is|are|was|were) (?:located|situated|based) (?:in|at|on)\b"),
        "Where {be} {subject} located?",
    ),
    _Rule(
        re.compile(
            rf"^{_SUBJECT}\s+(?P<be>was|were) (?:(?:\w+ly|first) )?"
            r"(?P<verb>founded|established|born|created|introduced|released|published|built|"
            r"discovered|invented|adopted|signed|enacted|opened|launched)\b[^.;]*?\b(?:in|on) "
            r"(?:[A-Z][a-z]+ )?(?:\d{1,2},? )?\d{4}\b"
        ),
        "When {be} {subject} {verb}?",
    ),
    _Rule(
        re.compile(
            rf"^{_SUBJECT}\s+(?P<be>was|were) "
            r"(?P<verb>founded|created|invented|discovered|written|designed|developed) by\b"
        ),
        "Who {verb_past} {subject}?",
    ),
    _Rule(re.compile(rf"^{_SUBJECT}\s+(?P<be>is|are) (?:defined as|called|known as)\b"), "What {be} {subject}?"),
    _Rule(re.compile(rf"^{_SUBJECT}\s+(?:refers?|refer) to\b"), "What does {subject} mean?"),
    _Rule(re.compile(rf"^{_SUBJECT}\s+means\b"), "What does {subject} mean?"),
    _Rule(re.compile(rf"^{_SUBJECT}\s+(?P<be>is|are) used (?:to|for|in|by|as)\b"), "What {be} {subject} used for?"),
    _Rule(re.compile(rf"^{_SUBJECT}\s+(?P<be>is|are|was|were) (?:an?|the|one of)\b"), "What {be} {subject}?"),
)
_HAN_SUBJECT: Final = r"(?P<subject>[^，,；;：:。！？]{2,24}?)"
_CHINESE: Final = (
    _Rule(
        re.compile(r"^所谓(?:的)?[“\"《]?(?P<subject>[^，,；;：:。！？”\"》]{2,20})[”\"》]?[，,]?"), "{subject}是什么？"
    ),
    _Rule(
        re.compile(
            rf"^{_HAN_SUBJECT}(?:于[^，。；]{{0,12}}?)?(?:成立|创立|创建|创办|建立)于[^，。；]{{0,6}}?\d{{4}}\s*年"
        ),
        "{subject}是什么时候成立的？",
    ),
    _Rule(
        re.compile(
            rf"^{_HAN_SUBJECT}(?:于|在)\s*\d{{4}}\s*年[^，。；]{{0,12}}?(?P<verb>成立|发布|颁布|施行|创立|建成|通过|开通)"
        ),
        "{subject}是什么时候{verb}的？",
    ),
    _Rule(re.compile(rf"^{_HAN_SUBJECT}自\s*\d{{4}}\s*年[^，。；]{{0,10}}?起施行"), "{subject}从什么时候起施行？"),
    _Rule(re.compile(rf"^{_HAN_SUBJECT}(?:位于|坐落于|坐落在|地处)"), "{subject}位于哪里？"),
    _Rule(re.compile(rf"^{_HAN_SUBJECT}由[^，。；]{{2,60}}?(?:组成|构成)"), "{subject}由哪些部分组成？"),
    _Rule(re.compile(rf"^{_HAN_SUBJECT}由[^，。；]{{2,30}}?负责"), "{subject}由谁负责？"),
    _Rule(re.compile(rf"^{_HAN_SUBJECT}(?:主要|通常|一般)?(?:包括|分为)"), "{subject}包括哪些？"),
    _Rule(re.compile(rf"^{_HAN_SUBJECT}(?:主要|通常|常|可以|可)?用于"), "{subject}有什么用途？"),
    _Rule(
        re.compile(
            rf"^{_HAN_SUBJECT}[，,]?(?:就|通常|一般)?(?:是指|指的是|的定义是|，是指|定义为|被称为|又称|也称|简称)"
        ),
        "{subject}是什么？",
    ),
    _Rule(
        re.compile(rf"^{_HAN_SUBJECT}是(?:一[种个类款门套项座家位]|指|由|用于|用来|世界|中国|我国|全球)"),
        "{subject}是什么？",
    ),
)
_PAST: Final = {"written": "wrote"}
_ENGLISH_HOW: Final = re.compile(r"^how to (?P<rest>.+)$", re.IGNORECASE)
_ASKING: Final = re.compile(
    r"^(?:what|who|when|where|why|how|which|is|are|do|does|can|should)\b.+|.*(?:什么|如何|怎么|怎样|哪些|为何|为什么|是否|多少).*",
    re.IGNORECASE,
)


def rule_questions(chunks: Sequence[Chunk], *, count: int) -> list[tuple[str, ...]]:
    """Find questions that the chunks of a document plainly answer.

    Args:
        chunks: Chunks in reading order.
        count: Most questions of a chunk.

    Returns:
        Questions of each chunk in the language of what they are about, those from its sentences first; possibly none.
        No question is asked twice in a document: what a heading asks is asked of the first chunk below it.
    """
    asked: set[str] = set()
    found: list[tuple[str, ...]] = []
    for chunk in chunks:
        own: list[str] = []
        for question in (*_from_statements(chunk), *_from_heading(chunk)):
            key = "".join(analyze(question).coarse)
            if key not in asked and len(question) <= MAX_QUESTION_CHARACTERS and len(own) < count:
                own.append(question)
                asked.add(key)
        found.append(tuple(own))
    return found


def _from_statements(chunk: Chunk) -> Iterator[str]:
    for sentence in statements_of(chunk.text, chunk.heading_path):
        question = _ask_chinese(sentence) if is_chinese(sentence) else _ask_english(sentence)
        if question:
            yield question


def _ask_english(sentence: str) -> str:
    for rule in _ENGLISH:
        found = rule.pattern.match(sentence)
        if found is None:
            continue
        parts = found.groupdict()
        subject = _english_subject(parts["subject"])
        if not subject:
            return ""
        verb = parts.get("verb") or ""
        return rule.question.format(
            subject=subject, be=parts.get("be") or "is", verb=verb, verb_past=_PAST.get(verb, verb)
        )
    return ""


def _english_subject(subject: str) -> str:
    """Make a subject fit for the middle of a question; "" if it is none."""
    words = subject.split()
    if not 1 <= len(words) <= _MAX_SUBJECT_WORDS or words[0].lower() in _NO_SUBJECT:
        return ""
    # Clauses before the subject ("When a page is full, …") have no comma here, but begin with a function word.
    if words[0].lower() not in {"a", "an", "the"} and is_stop_word(words[0].lower()):
        return ""
    if words[-1].lower() in _NO_SUBJECT or is_stop_word(words[-1].lower()):
        return ""
    if words[0] in {"A", "An", "The"}:
        words[0] = words[0].lower()
    return " ".join(words)


def _ask_chinese(sentence: str) -> str:
    for rule in _CHINESE:
        found = rule.pattern.match(sentence)
        if found is None:
            continue
        subject = topic_of(found["subject"].strip(" “”\"'（("))
        if not _is_chinese_subject(subject):
            return ""
        return rule.question.format(subject=subject, verb=found.groupdict().get("verb") or "")
    return ""


def _is_chinese_subject(subject: str) -> bool:
    if not 2 <= len(subject) <= 2 * _MAX_SUBJECT_IDEOGRAPHS or _NO_SUBJECT_CHINESE.match(subject):
        return False
    return _FUNCTION_TAIL.search(subject) is None


def _from_heading(chunk: Chunk) -> Sequence[str]:
    """Ask what the innermost heading that says something asks.

    A heading that is no question gives none: "What is known about X?" lies as near to every question about X, and cost
    7.5 points of recall@10 where it had a vector (480 passages of Wikipedia, multilingual-e5-small).
    """
    for heading in reversed(chunk.heading_path):
        if is_list_heading(heading):
            return []
        topic = topic_of(heading)
        if not topic or len(topic) > MAX_QUESTION_CHARACTERS // 2:
            continue
        if topic.endswith(("?", "？")):
            return [topic]
        if (how := _ENGLISH_HOW.match(topic)) is not None:
            return [f"How do I {how['rest']}?"]
        return [topic + ("？" if is_chinese(topic) else "?")] if _ASKING.fullmatch(topic) else []
    return []
