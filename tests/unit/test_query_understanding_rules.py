"""What rules make of a question, without a model: stand-alone questions, parts, general questions, weights."""

import pytest

from corpusmesh_core.query.understanding import (
    emphasis_of,
    emphasis_of_terms,
    general_question,
    language_of,
    languages_to_ask_in,
    needs_context,
    parts_of,
    stand_alone,
)
from corpusmesh_core.query.understanding.words import quoted_of, telling_phrases
from corpusmesh_core.text import analyze


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("How many days of annual leave do new staff get?", ("annual leave", "staff")),
        ("新员工的年假有多少天？", ("新员工", "年假")),
        ("B+树和哈希索引的区别是什么", ("B+树", "哈希索引")),
        ('Who directed "The Third Man"?', ("The Third Man", "directed")),
        ("What does error E-1042 in Windows 11 mean?", ("error E-1042", "Windows 11")),
        ("C++ vs Rust", ("C++", "Rust")),
        ("繁體中文的資料庫索引", ("繁體中文", "資料庫索引")),
        ("Why?", ()),
        ("这是为什么？", ()),
    ],
)
def test_telling_phrases_are_what_a_question_is_about_as_it_is_written(text: str, phrases: tuple[str, ...]) -> None:
    assert telling_phrases(text) == phrases


@pytest.mark.parametrize(
    "question",
    [
        "How long is it?",
        "And contractors?",
        "What about part-time staff?",
        "Why?",
        "Does that apply to contractors?",
        "When was she born?",
        "它什么时候生效？",
        "那上海呢？",
        "这个限制是多少？",
        "为什么？",
        "其处罚标准是多少",
        "该法的处罚是什么",
    ],
)
def test_a_question_that_points_back_needs_context(question: str) -> None:
    assert needs_context(question)


@pytest.mark.parametrize(
    "question",
    [
        "When did Einstein publish his theory of relativity?",
        "Is it possible to cancel a contract within 14 days?",
        "What is the notice period that applies to managers?",
        "How does Raft elect its leader?",
        'what does "this value is out of range" mean',
        "B+树和它的变种有什么区别？",
        "数据库的其他索引有哪些？",
        "哪些公司应该报税？",
        "年假有多少天",
        "此外还有哪些限制条件",
    ],
)
def test_a_question_that_names_what_it_asks_about_stands_alone(question: str) -> None:
    assert not needs_context(question)
    assert stand_alone(question, ["What is the capital of France?"]) == question


def test_a_follow_up_gets_what_the_last_telling_turn_was_about() -> None:
    earlier = ["What is the capital of France?", "How much annual leave do contractors get?", "Why?"]
    assert stand_alone("When does it expire?", earlier) == "When does it expire? (annual leave, contractors)"
    assert stand_alone("它呢？", ["数据安全法是什么？", "它什么时候生效？"]) == "它呢？（生效, 数据安全法）"


def test_a_question_about_a_person_gets_the_name_that_the_answer_gave() -> None:
    said = ["Jane Austen wrote it. She lived in Hampshire."]
    completed = stand_alone("When was she born?", ["Who is the author of Emma?"], said)
    assert "Jane Austen" in completed
    assert "Hampshire" not in completed


def test_what_is_added_is_bounded_and_not_said_twice() -> None:
    long = " and ".join(f"Topic{number} Name{number}" for number in range(200))
    assert len(stand_alone("And why?", [long])) < 200
    assert stand_alone("And the leave?", ["Leave?"]) == "And the leave?"


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Compare Raft and Paxos in fault tolerance and latency",
            ("Raft fault tolerance", "Raft latency", "Paxos fault tolerance", "Paxos latency"),
        ),
        ("对比MySQL和PostgreSQL在事务隔离方面的差异", ("MySQL 事务隔离", "PostgreSQL 事务隔离")),
        ("HTTP和HTTPS有什么区别", ("HTTP", "HTTPS")),
        ("北京和上海的人口分别是多少？", ("北京的人口是多少？", "上海的人口是多少？")),
        ("When was BMW founded and who is its CEO?", ("When was BMW founded", "who is its CEO? (BMW founded)")),
        ("谁发明了电话，以及他在哪里出生？", ("谁发明了电话", "他在哪里出生？（发明, 电话）")),
        ("Which film came out first, Blind Shaft or The Mask Of Fu Manchu?", ("Blind Shaft", "The Mask Of Fu Manchu")),
        ("哪部电影更早上映，《霸王别姬》还是《活着》？", ("《霸王别姬》", "《活着》")),
        ("Are Random House Tower and 888 7th Avenue both offices?", ("Random House Tower", "888 7th Avenue")),
        ("How much leave is there? When does it expire?", ("How much leave is there?", "When does it expire? (leave)")),
        (
            "What changed between the travel policy of 2023 and that of 2025?",
            ("travel policy of 2023", "travel policy of 2025"),
        ),
        ("How do snapshots differ from versions?", ("snapshots", "versions")),
    ],
)  # fmt: skip
def test_a_compound_question_is_taken_apart(question: str, parts: tuple[str, ...]) -> None:
    assert parts_of(question) == parts


@pytest.mark.parametrize(
    "question",
    [
        "What is black and white photography?",
        "How do I install and configure nginx?",
        "年假和病假的规定",
        "What are the rules for A, B and C?",
        "姚明和易建联谁更高",
        "Why?",
        "和",
        "",
        "? ? ?",
    ],
)
def test_a_question_of_one_part_stays_whole(question: str) -> None:
    assert parts_of(question) == ()


@pytest.mark.parametrize(
    ("question", "general"),
    [
        (
            "How many vacation days did Siemens grant new staff in 2023?",
            "How many vacation days did Siemens grant new staff?",
        ),
        (
            "What is the penalty under article 12 (paragraph 3) of the data security law?",
            "What is the penalty under article 12 of the data security law?",
        ),
        ("2023年第二季度腾讯的净利润是多少", "第二季度腾讯的净利润是多少"),
        ("Who?", ""),
        ("What is raft?", ""),
        ("What happened in 2023?", ""),
        ("What changed between the policy of 2023 and that of 2025?", ""),
    ],
)
def test_stepping_back_leaves_out_what_is_special_where_something_remains(question: str, general: str) -> None:
    assert general_question(question) == general


def test_quotes_identifiers_and_numbers_count_for_more_and_function_words_only_in_quotes() -> None:
    factors = emphasis_of('what does the error E-1042 in "The Third Man" mean 2023')
    assert factors["2023"] > 1
    assert factors[analyze("E-1042").fine[0]] > 1
    assert factors["third"] > 1
    assert factors["the"] > 1
    assert "what" not in factors
    assert emphasis_of("how are you") == {}
    assert quoted_of("「甲乙」和《丙丁》") == ("甲乙", "丙丁")


def test_a_named_keyword_counts_only_where_the_question_holds_it() -> None:
    factors = emphasis_of_terms("clustered index of InnoDB", ["InnoDB", "MySQL", "of"])
    assert set(factors) == {"innodb"}


def test_languages_are_told_apart_and_the_own_one_is_not_asked_in() -> None:
    assert language_of("索引是什么") == "zh"
    assert language_of("インデックスとは何ですか") == "ja"
    assert language_of("Was ist ein Index?") == "de"
    assert language_of("What is an index?") == "en"
    assert language_of("InnoDB") == ""
    assert languages_to_ask_in("What is an index?", ["en", "zh-Hans", "xx", "zh", "DE"], most=8) == ("zh", "de")


HOSTILE = [
    "are " + "x and " * 3000,
    "compare " * 2500,
    '"' * 20_000,
    "(" * 20_000,
    "在上海和北京" * 3000,
    "a-" * 10_000,
    "\x00\ud800 \u202e" * 100,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_questions_give_bounded_answers(text: str) -> None:
    assert len(stand_alone("Why?", [text])) < 400
    assert len(parts_of(text)) <= 6
    assert len(general_question(text)) <= len(text)
    assert len(emphasis_of(text)) <= 20_000
