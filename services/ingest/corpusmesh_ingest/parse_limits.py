"""Settings of what one document may cost while it is read."""

from pydantic import Field

from corpusmesh_core.ports.parsing import ParseLimits
from corpusmesh_runtime.config import Section

_DEFAULTS = ParseLimits()


class ParseLimitSettings(Section):
    """What one document may cost; one that goes beyond fails alone with DOCUMENT_RESOURCE_LIMIT, naming the limit."""

    max_pages: int = Field(default=_DEFAULTS.max_pages, ge=1)
    """Pages, slides or sheets."""
    max_rows: int = Field(default=_DEFAULTS.max_rows, ge=1)
    """Table rows of one document, all sheets together."""
    max_cells: int = Field(default=_DEFAULTS.max_cells, ge=1)
    """Table cells of one document, all sheets together."""
    max_uncompressed_bytes: int = Field(default=_DEFAULTS.max_uncompressed_bytes, ge=1)
    """What the members of a package or an archive unpack to."""
    max_compression_ratio: int = Field(default=_DEFAULTS.max_compression_ratio, ge=1)
    """Unpacked over packed bytes of a member larger than 1 MiB."""
    max_entries: int = Field(default=_DEFAULTS.max_entries, ge=1)
    """Members of a package or an archive."""
    max_depth: int = Field(default=_DEFAULTS.max_depth, ge=1)
    """Nesting of elements, groups, objects or quotes in a document."""
    max_attachment_depth: int = Field(default=_DEFAULTS.max_attachment_depth, ge=0)
    """Documents within documents: mails in mails, archives in archives; 0 reads no attachment."""
    max_attachments: int = Field(default=_DEFAULTS.max_attachments, ge=0)
    """Attachments of one mail, or files embedded in one document."""
    max_text_characters: int = Field(default=_DEFAULTS.max_text_characters, ge=1)
    """Text of one document."""
    max_pixels: int = Field(default=_DEFAULTS.max_pixels, ge=1)
    """Pixels of one image, or of one rendered page."""
    max_recognized_pages: int = Field(default=_DEFAULTS.max_recognized_pages, ge=1)
    """Pages of one document whose text is recognised; further ones are named in a warning, not an error."""
    max_pictures: int = Field(default=_DEFAULTS.max_pictures, ge=1)
    """Figures kept of one document; further ones are left out with a warning."""
    max_picture_bytes: int = Field(default=_DEFAULTS.max_picture_bytes, ge=1)
    """Encoded figures and page images of one document together; further ones are left out with a warning."""
    cpu_seconds: int = Field(default=_DEFAULTS.cpu_seconds, ge=1)
    """Processor time of one document."""
    recognition_cpu_seconds: int = Field(default=_DEFAULTS.recognition_cpu_seconds, ge=1)
    """Further processor time for each page that is recognised."""
    wall_seconds: int = Field(default=_DEFAULTS.wall_seconds, ge=1)
    """Time from start to end of one document."""
    memory_bytes: int = Field(default=_DEFAULTS.memory_bytes, ge=1)
    """Address space that one document may take beyond the idle parser process."""
    recognition_memory_bytes: int = Field(default=_DEFAULTS.recognition_memory_bytes, ge=1)
    """Further address space once recognition models are loaded."""

    def limits(self, *, max_bytes: int) -> ParseLimits:
        """Give them to a parser.

        Args:
            max_bytes: Largest original.

        Returns:
            The limits.
        """
        return ParseLimits(max_bytes=max_bytes, **self.model_dump())
