"""Words that say nothing about a topic; they are kept in the index and count little in a query."""

_ENGLISH = """
a about above after again all also am an and any are as at be because been before being below between both but by can
could did do does doing down during each few for from further had has have having he her here hers him his how i if in
into is it its itself just let me more most my no nor not now of off on once only or other our out over own please same
she should so some such tell than that the their them then there these they this those through to too under until up us
very was we were what when where which while who whom whose why will with would you your yours
"""
_CHINESE = """
的 了 在 是 我 有 和 就 不 人 都 一 一个 上 也 很 到 说 要 去 你 会 着 没有 看 好 自己 这 那 他
她 它 们 我们 你们 他们 与 及 或 而 但 被 把 给 对 从 向 为 以 于 之 其 吗 呢 吧 啊 什么 怎么 怎样 如何
为何 为什么 哪 哪个 哪些 哪里 哪儿 谁 几 多少 何 何时 何处 是否 请 请问 关于 以及 由 所 此 该
是什 么是 的是 是在 在哪 是谁 是哪 是多
多大 有多 有哪 于什
"""
_STOP_WORDS = frozenset(_ENGLISH.split()) | frozenset(_CHINESE.split())


def is_stop_word(term: str) -> bool:
    """Say whether a term is a function word of English or Chinese.

    Args:
        term: A normalised coarse or fine term, not stemmed (function words keep their form under stemming, but for a
            few such as "because").

    Returns:
        True for a function word.
    """
    return term in _STOP_WORDS
