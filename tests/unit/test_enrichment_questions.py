"""Questions by rule: what is plainly said is asked, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.documents import Chunk
from corpusmesh_core.enrichment.headings import is_list_heading, topic_of
from corpusmesh_core.enrichment.questions import rule_questions


def ask(text: str, *path: str, count: int = 10) -> tuple[str, ...]:
    return rule_questions([Chunk(0, text, path, 0, (), 1)], count=count)[0]


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("A B+ tree is a balanced tree of pages.", "What is a B+ tree?"),
        ("Leaf pages are the lowest pages of a tree.", "What are Leaf pages?"),
        ("HTTP stands for Hypertext Transfer Protocol.", "What does HTTP stand for?"),
        ("ACME Corp. is located in Berlin, Germany.", "Where is ACME Corp. located?"),
        ("InnoDB was first released in 2001.", "When was InnoDB released?"),
        ("The first bridge was built by Roman soldiers in the year 55 BC.", ""),
        ("The clustered index is used to store whole rows.", "What is the clustered index used for?"),
        ("Backpressure refers to the refusal of work that cannot be done.", "What does Backpressure mean?"),
        ("The engine consists of a parser and a planner.", "What does the engine consist of?"),
        ("Python was created by Guido van Rossum.", "Who created Python?"),
        ("It is a balanced tree of pages.", ""),
        ("This approach is the best of them all.", ""),
        ("When a page is full the page is split in two.", ""),
        ("Nobody knows.", ""),
        ("B+ 树是一种平衡树。", "B+ 树是什么？"),
        ("聚簇索引是指把整行数据存放在叶子节点的索引。", "聚簇索引是什么？"),
        ("所谓回表，就是根据主键再查一次聚簇索引。", "回表是什么？"),
        ("阿里巴巴集团成立于1999年，总部在杭州。", "阿里巴巴集团是什么时候成立的？"),
        ("《公共数据条例》自2022年3月1日起施行。", "《公共数据条例》从什么时候起施行？"),
        ("杭州位于浙江省北部的钱塘江下游。", "杭州位于哪里？"),
        ("公共数据平台由省大数据局负责。", "公共数据平台由谁负责？"),
        ("索引主要用于加快数据的查询速度。", "索引有什么用途？"),
        ("第 7.11 条 养护设施包括养护工区和道班房。", "养护设施包括哪些？"),
        ("这是一种常见的平衡树结构。", ""),
        ("该公司成立于1998年，总部在北京。", ""),
        ("如果页已满，那么它是一种需要分裂的页。", ""),
    ],
)
def test_a_plain_sentence_asks_its_question_and_one_that_points_back_asks_none(sentence: str, question: str) -> None:
    assert ask(sentence) == ((question,) if question else ())


@pytest.mark.parametrize(
    ("heading", "question"),
    [
        ("1.2 How to install the server", "How do I install the server?"),
        ("Why trees?", "Why trees?"),
        ("When to use an index", "When to use an index?"),
        ("PART II - HOW TO PAY IN ADVANCE", "How do I pay in advance?"),
        ("哪些数据可以共享", "哪些数据可以共享？"),
        ("3. Clustered indexes", ""),
        ("第二章 数据共享", ""),
        ("三、如何申请退款", "如何申请退款？"),
        ("Introduction", ""),
        ("第一章 总则", ""),
        ("Contents", ""),
        ("4.2", ""),
    ],
)
def test_a_heading_that_says_something_asks_for_it(heading: str, question: str) -> None:
    assert ask("x", heading) == ((question,) if question else ())


def test_a_heading_that_says_nothing_leaves_the_question_to_the_one_above() -> None:
    assert ask("x", "Why engines matter", "Introduction") == ("Why engines matter?",)
    assert ask("x", "Why engines matter", "Contents") == ()
    assert ask("x", "Why engines matter", "Storage engines") == ()


def test_no_question_is_asked_twice_in_a_document() -> None:
    chunks = [Chunk(n, "A tree is a graph without cycles.", ("Why trees?",), 0, (), 1) for n in range(3)]
    assert rule_questions(chunks, count=3) == [("What is a tree?", "Why trees?"), (), ()]
    assert rule_questions(chunks, count=1)[0] == ("What is a tree?",)


def test_topics_are_headings_without_numbers_and_shouting() -> None:
    assert topic_of("Chapter 3: Locks and latches") == "Locks and latches"
    assert topic_of("第三条 数据共享") == "数据共享"
    assert topic_of("HTTP") == "HTTP"
    assert topic_of("A. Scope") == "Scope"
    assert topic_of("Partition tolerance") == "Partition tolerance"
    assert is_list_heading("7. References")
    assert not is_list_heading("Reference architecture")


@given(st.text(max_size=200), st.lists(st.text(max_size=40), max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_text_asks_whole_questions_or_none(text: str, path: list[str]) -> None:
    for question in ask(text, *path):
        assert question.endswith(("?", "？"))
        assert "{" not in question.replace("{", "", text.count("{") + sum(part.count("{") for part in path))
