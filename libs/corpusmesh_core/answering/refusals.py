"""An answer that says that it is none: by the word that the prompt asks for, or in plain words."""

import re
from typing import Final

from corpusmesh_core.prompts.answer_v2 import NO_ANSWER_WORD

_LEADING: Final = re.compile(
    rf"[\s*_`\"'\[(]*{NO_ANSWER_WORD[:2]}[ _-]?{NO_ANSWER_WORD[3:]}\b[\s*_`\"'\])]*[.:,;—–-]*\s*", re.IGNORECASE
)
_MAX_HELD_CHARACTERS: Final = 24
_REFUSAL: Final = re.compile(
    r"\b(?:do|does|did|is|are)(?:n['’]t| not| no)\s+(?:\w+\s+){0,3}?"
    r"(?:answer|contain|mention|provide|say|state|specif|hold|include|cover|address|give|enough|sufficient|available)"
    r"|\bno (?:information|evidence|answer|mention|data)\b|\b(?:cannot|can['’]t|unable to|not able to) (?:\w+\s+){0,2}?"
    r"(?:answer|determine|find|tell|say)\b|\binsufficient (?:evidence|information)"
    r"|(?:没有|未|无法|不能|不足以|并未|无)(?:直接|足够|充分|从中)?(?:的)?"
    r"(?:提及|提到|说明|回答|给出|包含|找到|确定|信息|依据|证据|答案|资料)",
    re.IGNORECASE,
)


class LeadingRefusal:
    """Takes the word of refusal at the very beginning out of a stream."""

    def __init__(self) -> None:
        """Start at the beginning of a text."""
        self._pending = ""
        self._is_done = False
        self.is_refused = False

    def feed(self, piece: str, *, is_final: bool = False) -> str:
        """Take the next piece.

        Args:
            piece: The next characters.
            is_final: Whether nothing follows.

        Returns:
            What belongs to the answer; the same for any cutting of the text.
        """
        if self._is_done:
            return piece
        # White space alone is no text, so that an empty answer shows nothing.
        self._pending = (self._pending + piece).lstrip()
        if not is_final and len(self._pending) < _MAX_HELD_CHARACTERS:
            return ""
        self._is_done = True
        text, self._pending = self._pending, ""
        found = _LEADING.match(text)
        if found is None:
            return text
        self.is_refused = True
        return text[found.end() :]


def reads_as_refusal(text: str) -> bool:
    """Tell whether an answer without a citation says in plain words that the evidence does not do.

    Args:
        text: The whole answer.

    Returns:
        Whether one of its first sentences says so.
    """
    return _REFUSAL.search(text[:600]) is not None
