"""Messages that ask for nothing that a document could hold."""

import re
from typing import Final

_GREETING: Final = re.compile(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening|day|night)|how are you|how do you do|thanks?|thank you"
    r"(?: (?:very|so) much)?|thx|bye|goodbye|see you|ok(?:ay)?|great|nice|cool|welcome|sorry|please|there|everyone|all"
    r"|again|who are you|what can you do|help"
    r"|你好|您好|嗨|哈喽|早上好|下午好|晚上好|早安|晚安|谢谢|谢谢你|多谢|感谢|再见|拜拜|你是谁|你能做什么|好的|在吗|大家好)"
    r"(?:[\s,.!?~，。！？～…👋🙏]+|$)",
    re.IGNORECASE,
)
_MAX_CHARACTERS: Final = 80
MAX_DOUBTFUL_WORDS: Final = 8
"""A longer message is a question; a model is not asked about it."""

_EN: Final = "I answer questions from the documents of this knowledge base. What would you like to know?"
_ZH: Final = "我根据知识库中的文档回答问题。请告诉我您想了解什么。"


def is_small_talk(message: str) -> bool:
    """Tell by rule whether a message is small talk and nothing else.

    Args:
        message: What the user wrote, English or Chinese.

    Returns:
        True where it consists of greetings, thanks and the like alone.
    """
    rest = message.strip()
    if not rest or len(rest) > _MAX_CHARACTERS:
        return False
    while rest:
        found = _GREETING.match(rest)
        if found is None:
            return False
        rest = rest[found.end() :].lstrip()
    return True


def is_doubtful(message: str) -> bool:
    """Tell whether it is worth asking a model if a message needs documents.

    Args:
        message: What the user wrote.

    Returns:
        True for a short message; words of a script without spaces count as one.
    """
    return len(message.split()) <= MAX_DOUBTFUL_WORDS and len(message.strip()) <= _MAX_CHARACTERS


def invitation(message: str) -> str:
    """Say what is answered here.

    Args:
        message: What the user wrote.

    Returns:
        One or two sentences, in Chinese for a Chinese message, else in English.
    """
    return _ZH if re.search(r"[\u3400-\u9fff]", message) else _EN
