"""What the prompt of an answer consists of.

No template language: the parts are joined by `answering.rendering`, so nothing in a document or a question is ever read
as a field (field report FR-A09).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerPrompt:
    """Wording of the answer's prompt.

    Attributes:
        version: Name and number, stored with what it made.
        system: Instructions.
        before_evidence: Stands before the data blocks.
        after_evidence: Stands between the data blocks and the question.
    """

    version: str
    system: str
    before_evidence: str
    after_evidence: str
