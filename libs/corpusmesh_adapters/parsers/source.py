"""One document on its way into a parser, and what the documents inside it have cost so far."""

from dataclasses import dataclass, field

from corpusmesh_core.ports.parsing import ParseLimits, ParseOptions


@dataclass(slots=True)
class Spent:
    """What the members of archives inside one document have cost, over all of its nested archives.

    Attributes:
        unpacked_bytes: Bytes that were unpacked.
        member_count: Members that were read.
        text_characters: Text that was found in them, also where it was not kept.
    """

    unpacked_bytes: int = 0
    member_count: int = 0
    text_characters: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """One document on its way into a parser.

    Attributes:
        content: The file.
        display_name: Its file name, data only.
        options: Password and limits.
        depth: How many mails, archives and documents it lies in.
        spent: What archives around it have cost; shared with the documents inside it.
    """

    content: bytes
    display_name: str
    options: ParseOptions
    depth: int = 0
    spent: Spent = field(default_factory=Spent, compare=False)

    @property
    def limits(self) -> ParseLimits:
        """What it may cost."""
        return self.options.limits

    @property
    def extension(self) -> str:
        """The name's extension in lower case without its dot; "" where there is none."""
        _, dot, extension = self.display_name.rpartition(".")
        return extension.lower() if dot else ""

    def inside(self, content: bytes, display_name: str) -> "Source":
        """Make the source of a document that lies in this one.

        Args:
            content: The inner document.
            display_name: Its name, data only.

        Returns:
            The source, one level deeper.
        """
        return Source(content, display_name, self.options, self.depth + 1, self.spent)

    def replaced(self, content: bytes) -> "Source":
        """Make the source of another form of this document, as after it was decrypted.

        Args:
            content: The other form.

        Returns:
            The source at the same level.
        """
        return Source(content, self.display_name, self.options, self.depth, self.spent)
