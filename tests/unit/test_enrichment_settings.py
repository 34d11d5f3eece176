"""What a knowledge base may ask for, and which metadata it may have."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh_core.documents import Block, BlockKind, ParsedDocument
from corpusmesh_core.enrichment import (
    EnrichmentSettings,
    EnrichMethod,
    FieldSource,
    FieldType,
    MetadataField,
    MetadataSchema,
    SummaryScope,
)
from corpusmesh_core.enrichment.dates import parse_date
from corpusmesh_core.enrichment.extraction import extract_metadata, missing_fields
from corpusmesh_core.errors import InvalidArgumentError


def test_everything_is_off_unless_it_is_asked_for() -> None:
    nothings: tuple[dict[str, object] | None, ...] = (None, {}, {"keywords": {}}, {"keywords": {"method": "off"}})
    for nothing in nothings:
        settings = EnrichmentSettings.from_config(nothing)
        assert settings.is_off
        assert not settings.wants_model


def test_a_full_configuration_is_read() -> None:
    settings = EnrichmentSettings.from_config(
        {
            "keywords": {"method": "lite", "count": 5.0},
            "questions": {"method": "llm", "count": 3},
            "summaries": {"method": "llm", "scope": "both", "max_tokens": 120},
            "toc": {"method": "llm"},
            "tags": {"method": "lite", "tag_sets": ["a", "b", "a"], "max_tags": 2, "threshold": 0.3},
            "metadata": {"method": "lite"},
            "propositions": {"method": "llm", "threshold": 8},
            "memory": {"method": "lite"},
            "captions": {"method": "lite"},
        }
    )
    assert settings.keywords.count == 5
    assert settings.summaries.scope is SummaryScope.BOTH
    assert settings.tags.tag_sets == ("a", "b")
    assert settings.propositions.threshold == 8
    assert settings.captions.method is EnrichMethod.LITE
    assert settings.wants_model
    assert not settings.is_off


@pytest.mark.parametrize(
    ("config", "field", "allowed"),
    [
        ({"keyword": {}}, "enrichment.keyword", "keywords"),
        ({"keywords": {"methd": "lite"}}, "enrichment.keywords.methd", "method"),
        ({"keywords": {"method": "LLM"}}, "enrichment.keywords.method", '"llm"'),
        ({"keywords": {"count": 33}}, "enrichment.keywords.count", "from 1 to 32"),
        ({"keywords": {"count": 2.5}}, "enrichment.keywords.count", "whole number"),
        ({"keywords": {"count": float("inf")}}, "enrichment.keywords.count", "whole number"),
        ({"questions": {"count": True}}, "enrichment.questions.count", "whole number"),
        ({"summaries": {"scope": "chapter"}}, "enrichment.summaries.scope", '"section"'),
        ({"summaries": ["page"]}, "enrichment.summaries", "object"),
        ({"tags": {"method": "llm"}}, "enrichment.tags.method", '"lite"'),
        ({"tags": {"method": "lite"}}, "enrichment.tags.tag_sets", "at least one"),
        ({"tags": {"threshold": 1.0}}, "enrichment.tags.threshold", "below 1"),
        ({"tags": {"tag_sets": "kb"}}, "enrichment.tags.tag_sets", "list"),
        ({"captions": {"method": "llm"}}, "enrichment.captions.method", '"lite"'),
        ([], "", ""),
        ({1: {}}, "enrichment", "object"),
    ],
)
def test_a_bad_setting_is_refused_by_name_with_what_it_allows(config: object, field: str, allowed: str) -> None:
    if config == []:
        assert EnrichmentSettings.from_config(config).is_off  # type: ignore[arg-type]
        return
    with pytest.raises(InvalidArgumentError) as caught:
        EnrichmentSettings.from_config(config)  # type: ignore[arg-type]
    assert caught.value.reason == "ENRICHMENT_SETTING_INVALID"
    assert caught.value.field == field
    assert allowed in caught.value.message


SCHEMA = {
    "fields": [
        {
            "name": "doc_number",
            "type": "text",
            "source": "rule",
            "pattern": r"(?:文号|No\.)[:：]?\s*(\S+)",
            "required": True,
        },
        {
            "name": "effective",
            "type": "date",
            "source": "rule",
            "pattern": r"自(.{4,14}日)起施行|effective (?:from )?(.+?\d{4})",
        },
        {"name": "author", "type": "text", "source": "parser", "key": "Author"},
        {"name": "pages_said", "type": "number", "source": "parser", "key": "pages"},
        {"name": "kind", "type": "enum", "values": ["Law", "通知"], "source": "llm", "description": "What it is"},
        {"name": "department", "type": "text", "required": True},
        {"name": "is_public", "type": "boolean"},
    ]
}


def test_a_schema_is_read_with_its_sources() -> None:
    schema = MetadataSchema.from_config(SCHEMA)
    assert [entry.name for entry in schema.of_source(FieldSource.RULE)] == ["doc_number", "effective"]
    assert [entry.name for entry in schema.of_source(FieldSource.GIVEN)] == ["department", "is_public"]
    assert MetadataSchema.from_config(None).fields == ()
    assert MetadataSchema.from_config({}).fields == ()


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"name": "Bad Name", "type": "text"}, "name"),
        ({"name": "a", "type": "string"}, "type"),
        ({"name": "a"}, "type"),
        ({"name": "a", "type": "enum"}, "values"),
        ({"name": "a", "type": "text", "values": ["x"]}, "values"),
        ({"name": "a", "type": "text", "source": "rule"}, "pattern"),
        ({"name": "a", "type": "text", "source": "rule", "pattern": "(?<=x)y"}, "pattern"),
        ({"name": "a", "type": "text", "source": "rule", "pattern": "("}, "pattern"),
        ({"name": "a", "type": "text", "pattern": "x"}, "pattern"),
        ({"name": "a", "type": "text", "source": "parser"}, "key"),
        ({"name": "a", "type": "text", "required": "yes"}, "required"),
        ({"name": "a", "type": "text", "default": 1}, "default"),
        ({"name": "a", "type": "enum", "values": ["x", "x"]}, "values"),
        ("a", "0"),
    ],
)
def test_a_bad_field_is_refused_by_name(field: object, path: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        MetadataSchema.from_config({"fields": [field]})
    assert caught.value.reason == "METADATA_SCHEMA_INVALID"
    assert (caught.value.field or "").endswith(path)


def test_names_are_distinct_and_fields_bounded() -> None:
    twice = [{"name": "a", "type": "text"}] * 2
    many = [{"name": f"a{number}", "type": "text"} for number in range(65)]
    for fields in (twice, many, "a"):
        with pytest.raises(InvalidArgumentError):
            MetadataSchema.from_config({"fields": fields})


def document(*texts: str, **metadata: str) -> ParsedDocument:
    blocks = tuple(Block(BlockKind.PARAGRAPH, text) for text in texts)
    return ParsedDocument("text/plain", "", blocks, metadata=dict(metadata))


def test_rules_and_the_file_itself_give_values_in_their_one_form() -> None:
    schema = MetadataSchema.from_config(SCHEMA)
    said = document(
        "关于数据的通知",
        "文号：国发〔2020〕1号",
        "本办法自2021年5月1日起施行。",
        author="Zhang San\x00 ",
        pages="1,204 ",
    )
    values, warnings = extract_metadata(said, schema)
    assert values == {
        "doc_number": "国发〔2020〕1号",
        "effective": datetime(2021, 5, 1, tzinfo=UTC),
        "author": "Zhang San",
        "pages_said": 1204.0,
    }
    assert warnings == ()
    assert missing_fields(schema, values, frozenset({FieldSource.RULE})) == ()


def test_a_bad_value_is_a_warning_without_the_value_and_is_never_stored() -> None:
    schema = MetadataSchema.from_config(SCHEMA)
    values, warnings = extract_metadata(document("本办法自secret不久之日起施行。", pages="a dozen"), schema)
    assert values == {}
    assert len(warnings) == 2
    assert not any("secret" in warning or "dozen" in warning for warning in warnings)
    assert missing_fields(schema, values, frozenset({FieldSource.RULE})) == (
        "The metadata field doc_number is required and was not found in the document.",
    )
    # A field that nobody read is not missing.
    assert missing_fields(schema, values, frozenset()) == ()


def test_the_first_value_that_fits_is_taken() -> None:
    schema = MetadataSchema.from_config(
        {"fields": [{"name": "day", "type": "date", "source": "rule", "pattern": r"\[(.*?)\]"}]}
    )
    values, warnings = extract_metadata(document("[soon] [] [2020-02-30] [2020-02-29]"), schema)
    assert values == {"day": datetime(2020, 2, 29, tzinfo=UTC)}
    assert warnings == ()


def test_a_hostile_pattern_takes_linear_time() -> None:
    # Backtracking needs about 2^100000 steps for this one: it would not end.
    schema = MetadataSchema.from_config(
        {"fields": [{"name": "a", "type": "text", "source": "rule", "pattern": "(a+)+b"}]}
    )
    assert extract_metadata(document("a" * 100_000), schema) == ({}, ())


def test_given_values_are_checked_by_the_schema() -> None:
    schema = MetadataSchema.from_config(SCHEMA)
    kept, warnings = schema.check({"department": " HR\n", "is_public": True, "kind": "law", "other": "kept", "odd": 3})
    assert kept == {"department": "HR", "is_public": "true", "kind": "Law", "other": "kept"}
    assert warnings == ()
    kept, warnings = schema.check({"is_public": "maybe", "kind": "novel"})
    assert kept == {}
    assert len(warnings) == 2


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (FieldType.NUMBER, "3.5万", 35000.0),
        (FieldType.NUMBER, "￥1,200.50元", 1200.5),
        (FieldType.NUMBER, "45%", 45.0),
        (FieldType.NUMBER, "2 million", 2e6),
        (FieldType.NUMBER, -3, -3.0),
        (FieldType.NUMBER, "12 apples", None),
        (FieldType.NUMBER, "1,2,3", None),
        (FieldType.NUMBER, True, None),
        (FieldType.NUMBER, float("nan"), None),
        (FieldType.NUMBER, 10**400, None),
        (FieldType.BOOLEAN, "是", "true"),
        (FieldType.BOOLEAN, "No", "false"),
        (FieldType.BOOLEAN, "perhaps", None),
        (FieldType.TEXT, "a\x00b\u202ec ", "a b c"),
        (FieldType.TEXT, "x" * 1025, None),
        (FieldType.TEXT, 3, None),
    ],
)
def test_values_are_normalized_by_type(kind: FieldType, value: object, expected: object) -> None:
    assert MetadataField("a", kind).normalize(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-05", (2020, 1, 5)),
        ("2020/1/5", (2020, 1, 5)),
        ("2020年1月5日", (2020, 1, 5)),
        ("二〇二〇年十二月三十一日", (2020, 12, 31)),
        ("2020 年 5 月", (2020, 5, 1)),
        ("5 January 2020", (2020, 1, 5)),
        ("January 5th, 2020", (2020, 1, 5)),
        ("Sept. 5, 2020", (2020, 9, 5)),
        ("Sun, 05 Jan 2020 00:30:00 +0800", (2020, 1, 4)),
        ("D:20200105003000+08'00'", (2020, 1, 4)),
        ("31/12/2020", (2020, 12, 31)),
        ("12/31/2020", (2020, 12, 31)),
        ("2020-01-05T23:30:00-05:00", (2020, 1, 6)),
        ("05/06/2020", None),
        ("2020-02-30", None),
        ("5 Janvember 2020", None),
        ("2020", None),
        ("0000-01-01", None),
        ("soon", None),
        ("2020-01-05 and later", None),
    ],
)
def test_dates_are_read_as_documents_write_them(text: str, expected: tuple[int, int, int] | None) -> None:
    read = parse_date(text)
    assert (None if read is None else (read.year, read.month, read.day)) == expected
    assert read is None or read.tzinfo is UTC


@given(st.text(alphabet="0123456789年月日一二三十〇-/.:TZ +JanFeb,", max_size=30))
def test_any_text_is_a_date_or_none(text: str) -> None:
    parse_date(text)


@given(st.dates())
def test_every_iso_date_is_read_back(day: object) -> None:
    read = parse_date(str(day))
    assert read is not None
    assert read.date() == day
