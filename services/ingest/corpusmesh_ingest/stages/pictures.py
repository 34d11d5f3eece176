"""Pictures and page images: out of a parsed document into the object store, and from one version to the next."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from corpusmesh_core.documents import ParsedDocument, Picture
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_runtime.worker import TaskContext

_WRITES_IN_FLIGHT = 4


class PictureWriter:
    """Writes the pictures of a batch, few at once."""

    def __init__(self, objects: ObjectStore) -> None:
        """Create the writer.

        Args:
            objects: The store.
        """
        self._objects = objects
        self._gate = asyncio.Semaphore(_WRITES_IN_FLIGHT)

    async def store(self, context: TaskContext, document: ParsedDocument, prefix: str) -> ParsedDocument:
        """Write what a parser cut out and rendered.

        Args:
            context: The claim and its time.
            document: What a parser made.
            prefix: Where the pictures go; each goes under its name.

        Returns:
            The document without the pictures' bytes.
        """
        async with asyncio.TaskGroup() as group:
            for picture in _all_pictures(document):
                if picture.content:
                    group.create_task(self._put(context, prefix + picture.name, picture.content))
        return replace(document, pictures=_emptied(document.pictures), page_images=_emptied(document.page_images))

    async def copy(self, context: TaskContext, document: ParsedDocument, source: str, prefix: str) -> bool:
        """Copy the pictures of another version, so that each version's are its own.

        Args:
            context: The claim and its time.
            document: What both versions were parsed to.
            source: The other version's prefix.
            prefix: Where the copies go.

        Returns:
            False if one is gone.
        """
        copied = await asyncio.gather(
            *(self._copy(context, source + picture.name, prefix + picture.name) for picture in _all_pictures(document))
        )
        return all(copied)

    async def _put(self, context: TaskContext, key: str, content: bytes) -> None:
        async with self._gate:
            await self._objects.put(key, content, timeout_seconds=context.remaining_seconds())

    async def _copy(self, context: TaskContext, source: str, key: str) -> bool:
        async with self._gate:
            try:
                content = await self._objects.get(source, timeout_seconds=context.remaining_seconds())
            except NotFoundError:
                return False
            await self._objects.put(key, content, timeout_seconds=context.remaining_seconds())
        return True


def has_pictures(document: ParsedDocument) -> bool:
    """Tell whether a document has pictures or page images.

    Args:
        document: The document.

    Returns:
        True if it has one.
    """
    return bool(document.pictures or document.page_images)


def _all_pictures(document: ParsedDocument) -> Sequence[Picture]:
    return (*document.pictures, *document.page_images)


def _emptied(pictures: Sequence[Picture]) -> tuple[Picture, ...]:
    return tuple(replace(picture, content=b"") for picture in pictures)
