"""Keywords without a model, English and Chinese, with a small measured sample."""

from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment import IMAGE_CAPTION_PREFIX
from corpusmesh_core.enrichment.keywords import extract_keywords
from corpusmesh_core.text import analyze

SAMPLE: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = (
    (
        "MySQL indexes",
        (
            (
                "A B+ tree keeps its keys sorted. Leaf pages of a B+ tree are linked, so a range scan follows"
                " the linked leaf pages without visiting the root again. InnoDB stores rows in the leaf pages of the"
                " clustered index. The clustered index is the table: a secondary index points into the clustered"
                " index.",
                ("B+ tree", "leaf pages", "clustered index", "InnoDB"),
            ),
            (
                "A full-text index tokenizes each document and builds an inverted list for every token. Queries look up"
                " the inverted list of each token. Stop words have no inverted list. Tokens are ranked by relevance.",
                ("inverted list", "token", "stop words"),
            ),
            (
                "Replication copies the binary log to replicas. A replica applies the binary log in order; replication"
                " lag is the time by which a replica is behind the source.",
                ("replication", "binary log", "replica"),
            ),
        ),
    ),
    (
        "Plants",
        (
            (
                "Photosynthesis converts light into chemical energy. Chlorophyll absorbs light in the chloroplast, and"
                " the Calvin cycle fixes carbon dioxide. Photosynthesis releases oxygen. The Calvin cycle needs no"
                " light.",
                ("photosynthesis", "Calvin cycle", "light", "chlorophyll"),
            ),
            (
                "Transpiration is the loss of water through stomata. Stomata open and close by guard cells; when guard"
                " cells swell, the stomata open and transpiration rises.",
                ("transpiration", "stomata", "guard cells"),
            ),
        ),
    ),
    (
        "数据库索引",
        (
            (
                "B+ 树的叶子节点按照索引键有序排列，相邻叶子节点之间存在指针，因此范围查询可以沿着叶子节点顺序扫描。"
                "聚簇索引把整行数据存放在叶子节点，二级索引需要回表，范围查询不必回表。",
                ("叶子节点", "范围查询", "回表", "聚簇索引"),
            ),
            (
                "全文索引先对文档分词，再建立倒排表。倒排表记录每个词出现在哪些文档中。查询时，全文索引在倒排表里查找每个词。分词决定召回。",
                ("全文索引", "倒排表", "分词"),
            ),
        ),
    ),
    (
        "公共数据条例",
        (
            (
                "公共数据主管部门负责公共数据平台的建设。公共管理和服务机构应当通过公共数据平台共享公共数据，不得拒绝共享请求。",
                ("公共数据", "公共数据平台", "共享"),
            ),
            (
                "医疗保险基金实行收支两条线管理。参加医疗保险的职工缴纳医疗保险费，退休人员不缴纳医疗保险费，由医疗保险基金支付待遇。",
                ("医疗保险", "医疗保险基金", "缴纳"),
            ),
        ),
    ),
)


def chunks_of(*texts: str, path: tuple[str, ...] = ()) -> list[Chunk]:
    return [Chunk(position, text, path, 0, (), len(text)) for position, text in enumerate(texts)]


def found_share(wanted: tuple[str, ...], keywords: tuple[str, ...]) -> float:
    """A keyword counts as found if one of the answers has all its terms, or most of a longer one's."""
    answers = [frozenset(analyze(keyword).fine) for keyword in keywords]
    hits = 0
    for keyword in wanted:
        terms = frozenset(analyze(keyword).fine)
        hits += any(terms <= answer or (answer <= terms and 2 * len(answer) >= len(terms)) for answer in answers)
    return hits / len(wanted)


def test_recall_of_the_sample_is_what_was_measured() -> None:
    shares = {"en": [], "zh": []}  # type: dict[str, list[float]]
    for title, parts in SAMPLE:
        extracted = extract_keywords(chunks_of(*(text for text, _ in parts)), count=5, title=title)
        for (_, wanted), keywords in zip(parts, extracted, strict=True):
            shares["en" if title.isascii() else "zh"].append(found_share(wanted, keywords))
    means = {language: sum(found) / len(found) for language, found in shares.items()}
    assert means["en"] >= 0.85
    assert means["zh"] >= 0.85


def test_keywords_stand_as_the_chunk_writes_them_the_best_first() -> None:
    keywords = extract_keywords(chunks_of(SAMPLE[0][1][0][0], SAMPLE[0][1][1][0]), count=3)
    assert keywords[0][:2] == ("B+ tree", "clustered index")
    assert keywords[1][0] == "inverted list"


def test_words_of_the_heading_and_the_title_count_for_more() -> None:
    text = "Alpha beta gamma. Delta epsilon zeta."
    without = extract_keywords(chunks_of(text), count=1)
    above = extract_keywords(chunks_of(text, path=("Epsilon zeta",)), count=1)
    titled = extract_keywords(chunks_of(text), count=1, title="Zeta")
    assert without[0] != above[0]
    assert above[0] == ("epsilon zeta",)
    assert titled[0] == ("zeta",)


def test_function_words_numbers_letters_and_the_prefix_of_captions_are_no_keywords() -> None:
    text = f"{IMAGE_CAPTION_PREFIX} Table 3.2: a x b, 2020-01-05, iv, 78c62edbc674fdca; 它是一种其他的问题。"
    assert extract_keywords(chunks_of(text), count=9) == [()]
    assert extract_keywords(chunks_of(""), count=9) == [()]
    assert extract_keywords([], count=9) == []


def test_no_keyword_is_part_of_another() -> None:
    for title, parts in SAMPLE:
        for keywords in extract_keywords(chunks_of(*(text for text, _ in parts)), count=8, title=title):
            terms = [frozenset(analyze(keyword).fine) for keyword in keywords]
            assert not any(one <= other for one in terms for other in terms if one is not other)


@given(st.lists(st.text(max_size=80), max_size=5), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_any_text_gives_at_most_so_many_keywords_the_same_each_time(texts: list[str], count: int) -> None:
    first = extract_keywords(chunks_of(*texts), count=count)
    assert first == extract_keywords(chunks_of(*texts), count=count)
    assert len(first) == len(texts)
    assert all(len(keywords) <= count and all(keywords) for keywords in first)
