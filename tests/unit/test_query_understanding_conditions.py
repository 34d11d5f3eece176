"""Conditions on metadata that a question sets, and those that it does not set."""

from datetime import UTC, datetime

import pytest

from corpusmesh_core.query.understanding import common_fields, conditions_in
from corpusmesh_core.query.understanding.condition_times import period_of, time_ranges
from corpusmesh_core.tenancy import FilterCondition

TODAY = datetime(2026, 11, 30, tzinfo=UTC)
SCHEMA = {
    "metadata_schema": {
        "fields": [
            {"name": "effective_date", "type": "date", "description": "生效日期"},
            {"name": "author", "type": "text", "description": "作者"},
            {"name": "kind", "type": "enum", "values": ["law", "notice", "Annual Report"]},
            {"name": "department", "type": "enum", "values": ["HR", "Finance", "IT"], "description": "部门"},
            {"name": "page_count", "type": "number", "description": "页数"},
            {"name": "version", "type": "number"},
        ]
    }
}
FIELDS = common_fields([SCHEMA])


def shown(conditions: tuple[FilterCondition, ...]) -> list[str]:
    return [
        " ".join(
            (
                "not" * condition.negated,
                condition.key,
                condition.operator.value,
                "|".join(
                    (*condition.texts, *map(str, condition.numbers), *(str(day.date()) for day in condition.moments))
                ),
            )
        ).strip()
        for condition in conditions
    ]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("documents of kind law", ["kind eq law"]),
        ("notices by author Jane Doe", ["author eq Jane Doe"]),
        ('reports by the author "J. R. Smith" on dogs', ["author eq J. R. Smith"]),
        ("作者是张三的文件", ["author eq 张三"]),
        ("作者：王小明", ["author eq 王小明"]),
        ("HR policies on leave", ["department eq HR"]),
        ("部门：HR 的年假", ["department eq HR"]),
        ("department is Finance or HR", ["department eq HR|Finance"]),
        ("not HR documents", ["not department eq HR"]),
        ("annual report of Siemens", ["kind eq Annual Report"]),
        ("documents with more than 10 pages", ["page_count gt 10.0"]),
        ("页数不超过10的文件", ["page_count lte 10.0"]),
        ("version 3 manual", ["version eq 3.0"]),
        ("Which rules took effect after March 2024?", ["effective_date gte 2024-04-01"]),
        ("2024年3月之后生效的规定", ["effective_date gte 2024-04-01"]),
        ("rules published in 2023", ["effective_date gte 2023-01-01", "effective_date lt 2024-01-01"]),
        ("2019年到2021年的合同", ["effective_date gte 2019-01-01", "effective_date lt 2022-01-01"]),
        ("contracts between 2019 and 2021", ["effective_date gte 2019-01-01", "effective_date lt 2022-01-01"]),
        ("What changed after March 2024?", ["effective_date gte 2024-04-01"]),
        ("去年发布的公告", ["effective_date gte 2025-01-01", "effective_date lt 2026-01-01"]),
    ],
)
def test_a_question_sets_the_conditions_that_it_names(question: str, expected: list[str]) -> None:
    assert shown(conditions_in(question, FIELDS, today=TODAY)) == expected


@pytest.mark.parametrize(
    "question",
    [
        "How long is the notice period?",
        "What does the law say about dogs?",
        "what is it about finance",
        "Who won the world cup in 2018?",
        "Windows 2000 and error 1042",
        "How do I finance a house?",
        "哪一年成立的？",
        "",
        "2023",
    ],
)
def test_a_word_that_happens_to_be_a_value_is_no_condition(question: str) -> None:
    assert conditions_in(question, FIELDS, today=TODAY) == ()


def test_chinese_values_are_read_like_others() -> None:
    fields = common_fields(
        [{"metadata_schema": {"fields": [{"name": "office", "type": "enum", "values": ["人事部", "财务"]}]}}]
    )
    assert shown(conditions_in("人事部的年假规定", fields, today=TODAY)) == ["office eq 人事部"]
    assert shown(conditions_in("除了财务文件", fields, today=TODAY)) == ["not office eq 财务"]
    assert conditions_in("财务状况如何", fields, today=TODAY) == ()


def test_which_of_two_dates_is_meant_must_be_said() -> None:
    fields = common_fields(
        [{"metadata_schema": {"fields": [{"name": "signed_on", "type": "date"}, {"name": "expiry", "type": "date"}]}}]
    )
    assert conditions_in("contracts from 2023", fields, today=TODAY) == ()
    assert shown(conditions_in("contracts signed in 2023", fields, today=TODAY))[0] == "signed_on gte 2023-01-01"


def test_fields_are_those_that_all_knowledge_bases_have() -> None:
    other = {
        "metadata_schema": {
            "fields": [
                {"name": "kind", "type": "enum", "values": ["notice", "memo"]},
                {"name": "version", "type": "text"},
                {"name": "effective_date", "type": "date"},
            ]
        }
    }
    assert [(entry.name, entry.values) for entry in common_fields([SCHEMA, other])] == [
        ("effective_date", ()),
        ("kind", ("notice",)),
    ]
    assert common_fields([SCHEMA, {}]) == common_fields([]) == ()
    assert common_fields([{"metadata_schema": {"fields": "broken"}}]) == ()


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2023", "2023-01-01", "2024-01-01"),
        ("March 2024", "2024-03-01", "2024-04-01"),
        ("2024-12", "2024-12-01", "2025-01-01"),
        ("2024年12月", "2024-12-01", "2025-01-01"),
        ("2023年第二季度", "2023-04-01", "2023-07-01"),
        ("Q4 2023", "2023-10-01", "2024-01-01"),
        ("5 Jan 2020", "2020-01-05", "2020-01-06"),
        ("2020年1月31日", "2020-01-31", "2020-02-01"),
    ],
)
def test_a_time_is_read_as_the_period_that_it_names(text: str, start: str, end: str) -> None:
    period = period_of(text)
    assert period is not None
    assert [str(moment.date()) for moment in period] == [start, end]


@pytest.mark.parametrize("text", ["9999", "0001", "2023-13", "31 February 2023", "soon", ""])
def test_what_is_no_time_is_none(text: str) -> None:
    assert period_of(text) is None


def test_until_before_since_and_after_say_which_side_is_open() -> None:
    def bounds(text: str) -> list[tuple[str, str]]:
        return [
            (str(found.start and found.start.date()), str(found.end and found.end.date()))
            for found in time_ranges(text, today=TODAY)
        ]

    assert bounds("before 2020-05-01") == [("None", "2020-05-01")]
    assert bounds("by 2022") == bounds("截至2022年") == bounds("在2022年底之前") == [("None", "2023-01-01")]
    assert bounds("since March 2021") == bounds("自2021年3月以来") == [("2021-03-01", "None")]
    assert bounds("from 2020 onwards") == [("2020-01-01", "None")]
    assert bounds("last month") == bounds("上个月") == [("2026-10-01", "2026-11-01")]
