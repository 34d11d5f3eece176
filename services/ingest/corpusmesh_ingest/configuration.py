"""What a knowledge base's configuration says, section by section, checked before anything is made by it.

The configuration is JSON: `{"chunking": {…}, "parsing": {…}, "enrichment": {…}, "metadata_schema": {…}, "retrieval":
{…}, "ranking": {…}, "ledger": {…}, "publish_gate": {…}, "tree": {…}, "graph": {…}}`. A section that is missing has its
defaults. Handlers check a configuration when it is set, so that a run never meets a bad one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from corpusmesh.retrieve.v1.retrieval_service_pb2 import RetrievalPlan
from corpusmesh_core.chunking import DEFAULT_TEMPLATE, find_template
from corpusmesh_core.enrichment.schema import MetadataSchema
from corpusmesh_core.enrichment.settings import EnrichmentSettings, EnrichMethod
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.evaluation.gate import PUBLISH_GATE, PublishGate
from corpusmesh_core.graphs.settings import GRAPH, GraphSettings
from corpusmesh_core.ports.parsing import PARSER_REVISION, ParseLimits, ParseOptions, RecognitionMode
from corpusmesh_core.ports.retrievals import LEDGER, LedgerSection
from corpusmesh_core.ranking.features import MAX_PAGE_RANK
from corpusmesh_core.trees.settings import TREE, TreeScope, TreeSettings
from corpusmesh_runtime.config_hash import RANKING, digest
from corpusmesh_runtime.retrieval_plans import RETRIEVAL, make_plan

CHUNKING: Final = "chunking"
PARSING: Final = "parsing"
ENRICHMENT: Final = "enrichment"
METADATA_SCHEMA: Final = "metadata_schema"

MIN_DOTS_PER_INCH: Final = 36
MAX_DOTS_PER_INCH: Final = 300
DEFAULT_DOTS_PER_INCH: Final = 100

INPUT_OVERHEAD_TOKENS: Final = 40
"""Room for the role's prefix, the special tokens and a document's title in front of a chunk, out of what the embedder
reads."""

_EMBEDDER_MAX_TOKENS: Final = "embedder_max_tokens"

Config = Mapping[str, object]


def effective_config(knowledge_base: Config, version: Config) -> dict[str, object]:
    """Give the configuration that holds for one version.

    Args:
        knowledge_base: Configuration of its knowledge base.
        version: What holds for the version alone.

    Returns:
        Each section of the version's own configuration in place of the knowledge base's.
    """
    return {**knowledge_base, **version}


def section_of(config: Config, name: str) -> dict[str, Any]:
    """Give one section of a configuration.

    Args:
        config: The configuration.
        name: Name of the section.

    Returns:
        Its values; none where it is missing.
    """
    section = config.get(name)
    return dict(section) if isinstance(section, Mapping) else {}


@dataclass(frozen=True, slots=True)
class ParseSection:
    """How documents are read.

    Attributes:
        recognition: When text is recognised in images.
        keep_pictures: Whether figures are cut out and kept.
        render_pages: Whether each page is kept as an image.
        render_dots_per_inch: Resolution of page images.
    """

    recognition: RecognitionMode = RecognitionMode.AUTO
    keep_pictures: bool = False
    render_pages: bool = False
    render_dots_per_inch: int = DEFAULT_DOTS_PER_INCH

    def __post_init__(self) -> None:
        """Refuse a resolution that is of no use, or costs too much.

        Raises:
            InvalidArgumentError: PARSE_SETTING_INVALID with the field.
        """
        if not MIN_DOTS_PER_INCH <= self.render_dots_per_inch <= MAX_DOTS_PER_INCH:
            raise InvalidArgumentError(
                "PARSE_SETTING_INVALID",
                f"render_dots_per_inch must be {MIN_DOTS_PER_INCH} to {MAX_DOTS_PER_INCH}",
                field="render_dots_per_inch",
                setting="render_dots_per_inch",
            )

    @classmethod
    def of(cls, config: Config) -> "ParseSection":
        """Read the section of a configuration.

        Args:
            config: The configuration.

        Returns:
            The section.

        Raises:
            InvalidArgumentError: PARSE_SETTING_INVALID if a value has another shape.
        """
        values = section_of(config, PARSING)
        try:
            return cls(
                recognition=RecognitionMode(values.get("recognition", RecognitionMode.AUTO)),
                keep_pictures=bool(values.get("keep_pictures", False)),
                render_pages=bool(values.get("render_pages", False)),
                render_dots_per_inch=int(values.get("render_dots_per_inch", DEFAULT_DOTS_PER_INCH)),
            )
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError("PARSE_SETTING_INVALID", "the parse settings have another shape") from error

    def to_config(self) -> dict[str, object]:
        """Write the section.

        Returns:
            JSON values, those alone that are not the default.
        """
        values: dict[str, object] = {}
        if self.recognition is not RecognitionMode.AUTO:
            values["recognition"] = self.recognition.value
        if self.keep_pictures:
            values["keep_pictures"] = True
        if self.render_pages:
            values["render_pages"] = True
        if self.render_dots_per_inch != DEFAULT_DOTS_PER_INCH:
            values["render_dots_per_inch"] = self.render_dots_per_inch
        return values

    @property
    def makes_pictures(self) -> bool:
        """Whether a document may come with pictures or page images."""
        return self.keep_pictures or self.render_pages

    def options(self, limits: ParseLimits, *, password: str | None = None) -> ParseOptions:
        """Make the parser's options.

        Args:
            limits: What a document may cost.
            password: What opens it.

        Returns:
            The options.
        """
        return ParseOptions(
            password=password,
            limits=limits,
            recognition=self.recognition,
            keep_pictures=self.keep_pictures,
            render_pages=self.render_pages,
            render_dots_per_inch=self.render_dots_per_inch,
        )

    def fingerprint(self) -> str:
        """Digest what decides how a document is read, so that a reading by the same parsers and settings is taken over.

        Returns:
            Sixteen hexadecimal digits.
        """
        return digest({"settings": self.to_config(), "revision": PARSER_REVISION})


def chunking_of(config: Config) -> tuple[str, dict[str, Any]]:
    """Read how documents are cut.

    Args:
        config: The configuration.

    Returns:
        Template and its settings.
    """
    section = section_of(config, CHUNKING)
    settings = section.get("settings")
    return str(section.get("template", DEFAULT_TEMPLATE)), dict(settings) if isinstance(settings, Mapping) else {}


def chunk_settings(config: Config, *, embedder_max_tokens: int) -> tuple[str, dict[str, Any]]:
    """Read how documents are cut, within what the embedder reads.

    Args:
        config: The configuration.
        embedder_max_tokens: Tokens that the embedder reads of one text, everything included.

    Returns:
        Template and settings for `chunk_document`.
    """
    template, settings = chunking_of(config)
    return template, {**settings, _EMBEDDER_MAX_TOKENS: embedder_max_tokens - INPUT_OVERHEAD_TOKENS}


def checked_config(plain: Config, *, embedder_max_tokens: int, field: str) -> dict[str, object]:
    """Refuse a configuration that a run could not work with, and bring it into its one form.

    Args:
        plain: Sections that were asked for.
        embedder_max_tokens: Tokens that the embedder reads of one text, everything included.
        field: Path in the request of the message that holds the sections, for errors.

    Returns:
        The sections, without what says no more than the default: equal configurations are equal texts.

    Raises:
        InvalidArgumentError: CHUNK_TEMPLATE_UNKNOWN, CHUNK_SETTING_UNKNOWN, CHUNK_SETTING_INVALID,
            PARSE_SETTING_INVALID, ENRICHMENT_SETTING_INVALID, METADATA_SCHEMA_INVALID, PLAN_INVALID,
            PAGE_RANK_INVALID, LEDGER_SETTING_INVALID, PUBLISH_GATE_INVALID, TREE_SETTING_INVALID or
            GRAPH_SETTING_INVALID, with the field.
    """
    checked: dict[str, object] = {}
    if CHUNKING in plain:
        _check_chunking(plain, embedder_max_tokens=embedder_max_tokens, field=f"{field}.chunk_settings")
        template, settings = chunking_of(plain)
        checked[CHUNKING] = {"template": template, "settings": settings}
    if PARSING in plain:
        with at_field(f"{field}.parse_settings"):
            checked[PARSING] = ParseSection.of(plain).to_config()
    if ENRICHMENT in plain:
        section = section_of(plain, ENRICHMENT)
        with at_field(f"{field}.enrichment_settings", without=f"{ENRICHMENT}."):
            EnrichmentSettings.from_config(section)
        checked[ENRICHMENT] = {name: values for name, values in section.items() if not _is_off(values)}
    if METADATA_SCHEMA in plain:
        section = section_of(plain, METADATA_SCHEMA)
        with at_field(f"{field}.metadata_schema", without=f"{METADATA_SCHEMA}."):
            schema = MetadataSchema.from_config(section)
        checked[METADATA_SCHEMA] = section if schema.fields else {}
    if RETRIEVAL in plain:
        with at_field(f"{field}.retrieval_plan", without=f"{RETRIEVAL}."):
            make_plan(RetrievalPlan(), [plain], page_size=1, default_window=1)
        checked[RETRIEVAL] = section_of(plain, RETRIEVAL)
    if RANKING in plain:
        checked[RANKING] = _checked_ranking(section_of(plain, RANKING), field=f"{field}.rank_settings")
    if LEDGER in plain:
        with at_field(f"{field}.ledger_settings"):
            is_on = LedgerSection.of(plain).enabled
        checked[LEDGER] = section_of(plain, LEDGER) if is_on else {}
    if PUBLISH_GATE in plain:
        with at_field(f"{field}.publish_gate"):
            PublishGate.of(plain)
        checked[PUBLISH_GATE] = section_of(plain, PUBLISH_GATE)
    if TREE in plain:
        with at_field(f"{field}.tree_settings", without=f"{TREE}."):
            is_on = TreeSettings.of(plain).scope is not TreeScope.OFF
        checked[TREE] = section_of(plain, TREE) if is_on else {}
    if GRAPH in plain:
        with at_field(f"{field}.graph_settings", without=f"{GRAPH}."):
            is_on = GraphSettings.of(plain).is_on
        checked[GRAPH] = section_of(plain, GRAPH) if is_on else {}
    return checked


def _checked_ranking(section: Mapping[str, Any], *, field: str) -> dict[str, object]:
    page_rank = section.get("page_rank", 0)
    if not 0 <= page_rank <= MAX_PAGE_RANK:
        raise InvalidArgumentError(
            "PAGE_RANK_INVALID",
            f"page_rank must be within 0..{MAX_PAGE_RANK}",
            field=f"{field}.page_rank",
            value=page_rank,
        )
    return dict(section) if page_rank else {}


def without_defaults(config: Config) -> dict[str, object]:
    """Leave out sections that say nothing.

    Args:
        config: A checked configuration.

    Returns:
        The others.
    """
    return {name: section for name, section in config.items() if section}


def enrichment_of(config: Config) -> EnrichmentSettings:
    """Read what is to be made of chunks.

    Args:
        config: The configuration.

    Returns:
        The settings.
    """
    return EnrichmentSettings.from_config(section_of(config, ENRICHMENT))


def metadata_schema_of(config: Config) -> MetadataSchema:
    """Read which values documents have.

    Args:
        config: The configuration.

    Returns:
        The schema.
    """
    return MetadataSchema.from_config(section_of(config, METADATA_SCHEMA))


def _is_off(section: object) -> bool:
    return not isinstance(section, Mapping) or section.get("method", EnrichMethod.OFF) == EnrichMethod.OFF


def _check_chunking(config: Config, *, embedder_max_tokens: int, field: str) -> None:
    template, own = chunking_of(config)
    if _EMBEDDER_MAX_TOKENS in own:
        raise InvalidArgumentError(
            "CHUNK_SETTING_UNKNOWN",
            f"{_EMBEDDER_MAX_TOKENS} is the embedding model's and cannot be set; set max_tokens",
            field=f"{field}.settings.{_EMBEDDER_MAX_TOKENS}",
            template=template,
            setting=_EMBEDDER_MAX_TOKENS,
        )
    with at_field(f"{field}.template", without="chunk_template"):
        found = find_template(template)
    _, settings = chunk_settings(config, embedder_max_tokens=embedder_max_tokens)
    with at_field(f"{field}.settings"):
        found.settings(settings)


@contextmanager
def at_field(path: str, *, without: str = "") -> Iterator[None]:
    """Let errors name the field by its whole path in the request.

    Args:
        path: Path of the message that the field stands in.
        without: Beginning of the field that the path stands for.

    Yields:
        Nothing.

    Raises:
        InvalidArgumentError: The same error with the whole path.
    """
    try:
        yield
    except InvalidArgumentError as error:
        inner = (error.field or "").removeprefix(without)
        error.field = f"{path}.{inner}" if inner else path
        raise
