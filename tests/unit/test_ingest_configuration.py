"""A configuration is checked when it is set, and one form stands for equal configurations."""

from typing import Any

import pytest

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as pb
from corpusmesh_client.knowledge_base_settings import settings_from_plain, settings_to_plain
from corpusmesh_core.chunking import find_template
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.parsing import ParseLimits, RecognitionMode
from corpusmesh_ingest.configuration import (
    ParseSection,
    checked_config,
    chunk_settings,
    effective_config,
    without_defaults,
)
from corpusmesh_ingest.convert_knowledge_bases import changed_config, config_of

MAX_TOKENS = 512


def configured(plain: dict[str, Any]) -> dict[str, object]:
    return config_of(settings_from_plain(plain), embedder_max_tokens=MAX_TOKENS)


def test_a_version_overrides_whole_sections() -> None:
    base = {"chunking": {"template": "book", "settings": {"max_tokens": 99}}, "parsing": {"recognition": "never"}}
    own = {"chunking": {"template": "one"}}
    assert effective_config(base, own) == {"chunking": {"template": "one"}, "parsing": {"recognition": "never"}}
    assert effective_config(base, {}) == base


def test_nothing_asked_for_is_the_configuration_of_before() -> None:
    assert configured({}) == {"chunking": {"template": "general", "settings": {}}}


@pytest.mark.parametrize(
    "plain",
    [
        {"parsing": {"recognition": "auto", "keep_pictures": False, "render_dots_per_inch": 100}},
        {"enrichment": {"keywords": {"method": "off", "count": 7}, "toc": {}}},
        {"metadata_schema": {"fields": []}},
    ],
)
def test_what_says_no_more_than_the_defaults_leaves_no_trace(plain: dict[str, Any]) -> None:
    assert configured(plain) == configured({})


def test_settings_come_back_as_they_were_given() -> None:
    plain = {
        "chunking": {"template": "book", "settings": {"max_tokens": 300, "children_delimiter": "\n"}},
        "parsing": {"recognition": "always", "keep_pictures": True, "render_pages": True, "render_dots_per_inch": 72},
        "enrichment": {
            "keywords": {"method": "lite", "count": 7},
            "summaries": {"method": "llm", "scope": "both", "max_tokens": 99},
            "tags": {"method": "lite", "tag_sets": ["a", "b"], "max_tags": 2, "threshold": 0.5},
        },
        "metadata_schema": {
            "fields": [{"name": "kind", "type": "enum", "values": ["law", "notice"], "required": True, "source": "llm"}]
        },
    }
    assert configured(plain) == plain
    assert settings_to_plain(settings_from_plain(plain)) == plain


def test_a_number_in_a_struct_is_whole_again() -> None:
    message = pb.KnowledgeBase()
    message.chunk_settings.settings.update({"heading_break_tokens": 12})
    config = config_of(message, embedder_max_tokens=MAX_TOKENS)
    assert config["chunking"] == {"template": "general", "settings": {"heading_break_tokens": 12}}


def test_a_budget_that_is_given_twice_must_be_the_same() -> None:
    message = settings_from_plain({"chunking": {"settings": {"max_tokens": 100}}})
    message.chunk_settings.settings.update({"max_tokens": 200})
    with pytest.raises(InvalidArgumentError) as caught:
        config_of(message, embedder_max_tokens=MAX_TOKENS)
    assert caught.value.field == "knowledge_base.chunk_settings.settings.max_tokens"


def test_an_overlap_is_measured_against_what_the_embedder_reads() -> None:
    plain = {"chunking": {"settings": {"overlap_tokens": 150}}}
    assert configured(plain)
    with pytest.raises(InvalidArgumentError) as caught:
        config_of(settings_from_plain(plain), embedder_max_tokens=256)
    assert caught.value.field == "knowledge_base.chunk_settings.settings.overlap_tokens"


@pytest.mark.parametrize("dots", [1, 35, 301])
def test_a_resolution_out_of_range_is_refused_with_its_field(dots: int) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        configured({"parsing": {"render_dots_per_inch": dots}})
    assert (caught.value.reason, caught.value.field) == (
        "PARSE_SETTING_INVALID",
        "knowledge_base.parse_settings.render_dots_per_inch",
    )


def test_an_enum_value_of_a_later_release_is_refused() -> None:
    message = pb.KnowledgeBase()
    message.parse_settings.recognition = 99  # type: ignore[assignment]
    with pytest.raises(InvalidArgumentError) as caught:
        config_of(message, embedder_max_tokens=MAX_TOKENS)
    assert (caught.value.reason, caught.value.field) == (
        "SETTING_UNKNOWN",
        "knowledge_base.parse_settings.recognition",
    )


def test_a_tag_set_is_named_by_an_identifier() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        configured({"enrichment": {"tags": {"method": "lite", "tag_sets": ["a/../b"]}}})
    assert caught.value.field == "knowledge_base.enrichment_settings.tags.tag_sets"


def test_a_change_leaves_the_other_sections_and_an_unset_one_returns_to_its_defaults() -> None:
    current = configured({"chunking": {"template": "book"}, "parsing": {"keep_pictures": True}})
    wanted = settings_from_plain({"enrichment": {"toc": {"method": "lite"}}})
    changed = changed_config(
        current, wanted, frozenset({"enrichment_settings", "parse_settings"}), embedder_max_tokens=MAX_TOKENS
    )
    assert changed == {**configured({"chunking": {"template": "book"}}), "enrichment": {"toc": {"method": "lite"}}}


def test_the_section_of_a_version_alone_is_checked_alone() -> None:
    checked = checked_config({"parsing": {}}, embedder_max_tokens=MAX_TOKENS, field="")
    assert checked == {"parsing": {}}, "an empty section of a version still stands in place of the knowledge base's"
    assert without_defaults(checked) == {}


def test_the_fingerprint_is_that_of_what_decides_the_reading() -> None:
    plain = ParseSection()
    assert plain.fingerprint() == ParseSection.of({"parsing": {"recognition": "auto"}}).fingerprint()
    others = [
        ParseSection(recognition=RecognitionMode.NEVER),
        ParseSection(keep_pictures=True),
        ParseSection(render_pages=True),
        ParseSection(render_dots_per_inch=72),
    ]
    assert len({section.fingerprint() for section in (plain, *others)}) == 5


def test_options_carry_section_limits_and_password() -> None:
    options = ParseSection(
        RecognitionMode.ALWAYS, keep_pictures=True, render_pages=True, render_dots_per_inch=72
    ).options(ParseLimits(max_pages=7), password="secret")
    assert (options.recognition, options.keep_pictures, options.render_pages) == (RecognitionMode.ALWAYS, True, True)
    assert (options.render_dots_per_inch, options.limits.max_pages, options.password) == (72, 7, "secret")
    assert "secret" not in repr(options)


def test_chunks_leave_room_for_title_and_prefix() -> None:
    template, values = chunk_settings({}, embedder_max_tokens=MAX_TOKENS)
    assert find_template(template).settings(values).budget_tokens == 400
    template, values = chunk_settings({}, embedder_max_tokens=256)
    assert find_template(template).settings(values).budget_tokens == 216


@pytest.mark.parametrize("budget", [0, -1, 10**12, 99.5, True, "many"])
def test_a_budget_that_no_typed_field_holds_is_still_said(budget: object) -> None:
    plain = {"chunking": {"settings": {"max_tokens": budget}}}
    assert settings_to_plain(settings_from_plain(plain)) == plain


def test_what_other_parsers_read_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    section = ParseSection.of(configured({}))
    before = section.fingerprint()
    assert section.fingerprint() == before
    monkeypatch.setattr("corpusmesh_ingest.configuration.PARSER_REVISION", 2)
    assert section.fingerprint() != before


@pytest.mark.parametrize("page_rank", [-1, 101])
def test_a_page_rank_out_of_range_is_refused_with_its_field(page_rank: int) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        checked_config({"ranking": {"page_rank": page_rank}}, embedder_max_tokens=512, field="knowledge_base")
    assert caught.value.reason == "PAGE_RANK_INVALID"
    assert caught.value.field == "knowledge_base.rank_settings.page_rank"


def test_a_page_rank_is_kept_and_none_says_nothing() -> None:
    asked = {"ranking": {"page_rank": 40}}
    assert checked_config(asked, embedder_max_tokens=512, field="knowledge_base") == asked
    assert checked_config({"ranking": {}}, embedder_max_tokens=512, field="knowledge_base") == {"ranking": {}}
