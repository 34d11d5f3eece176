"""What a document may cost can be set, by the names that errors give."""

from dataclasses import asdict, fields

import pytest
from pydantic import ValidationError

from corpusmesh_core.ports.parsing import ParseLimits
from corpusmesh_ingest.parse_limits import ParseLimitSettings


def test_every_limit_is_a_setting_with_the_parsers_own_default() -> None:
    assert {*ParseLimitSettings.model_fields, "max_bytes"} == {limit.name for limit in fields(ParseLimits)}
    assert asdict(ParseLimitSettings().limits(max_bytes=ParseLimits().max_bytes)) == asdict(ParseLimits())


def test_a_limit_that_is_set_reaches_the_parser() -> None:
    limits = ParseLimitSettings(max_pages=7, cpu_seconds=3).limits(max_bytes=10)
    assert (limits.max_pages, limits.cpu_seconds, limits.max_bytes) == (7, 3, 10)


def test_a_limit_that_lets_nothing_pass_is_refused() -> None:
    with pytest.raises(ValidationError):
        ParseLimitSettings(max_pages=0)
    assert ParseLimitSettings(max_attachments=0).limits(max_bytes=1).max_attachments == 0
