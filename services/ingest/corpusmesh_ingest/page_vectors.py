"""Vectors of page images: what a vision model sees of a version's pages, as one object beside its other artefacts."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from corpusmesh_core.ports.objects import ObjectStore
from corpusmesh_core.ports.page_embedding import MAX_PAGE_IMAGE_BYTES, MAX_PAGES_PER_CALL, PageEmbedder
from corpusmesh_core.ranking import PageVectors, pack_pages, quantize

_PAGE_NAME = re.compile(r"page-([1-9][0-9]{0,6})")
_VECTORS = "vectors-"
_MAX_PICTURES = 20_000


@dataclass(frozen=True, slots=True)
class PageImage:
    """One page image in the object store.

    Attributes:
        page: Page from 1.
        key: Its key.
        byte_count: Its length.
    """

    page: int
    key: str
    byte_count: int

    @property
    def name(self) -> str:
        """Name of the picture."""
        return f"page-{self.page}"


@dataclass(frozen=True, slots=True)
class PageImages:
    """The page images of a version, and what a vision model saw of them.

    Attributes:
        images: By page.
        vectors_key: Key of the object with their vectors; "" where there is none.
        space_id: Space of those vectors.
    """

    images: tuple[PageImage, ...] = ()
    vectors_key: str = ""
    space_id: str = ""

    @property
    def embedded(self) -> tuple[PageImage, ...]:
        """The images that a vision model is shown; page i of the object of vectors is image i of these."""
        return tuple(image for image in self.images if image.byte_count <= MAX_PAGE_IMAGE_BYTES)


def vectors_key(prefix: str, space_id: str) -> str:
    """Name the object with the vectors of a version's page images; it lies beside them, so it goes with them.

    Args:
        prefix: Where the version's pictures lie; ends with "/".
        space_id: Space of the vectors.

    Returns:
        The key.
    """
    return f"{prefix}{_VECTORS}{space_id}"


async def list_page_images(objects: ObjectStore, prefix: str, *, timeout_seconds: float) -> PageImages:
    """List the page images of a version.

    Args:
        objects: The store.
        prefix: Where the version's pictures lie; ends with "/". "" lists nothing.
        timeout_seconds: Bound of the listing.

    Returns:
        Page images and their vectors.
    """
    if not prefix:
        return PageImages()
    found: list[PageImage] = []
    seen = ""
    async for info in objects.list_prefix(prefix, max_object_count=_MAX_PICTURES, timeout_seconds=timeout_seconds):
        name = info.key.removeprefix(prefix)
        if match := _PAGE_NAME.fullmatch(name):
            found.append(PageImage(int(match.group(1)), info.key, info.byte_count))
        elif name.startswith(_VECTORS):
            seen = name.removeprefix(_VECTORS)
    images = tuple(sorted(found, key=lambda image: image.page))
    return PageImages(images, vectors_key(prefix, seen) if seen else "", seen)


async def embed_page_images(
    objects: ObjectStore, embedder: PageEmbedder, images: Sequence[PageImage], *, timeout_seconds: float
) -> bytes:
    """Embed page images, a few at a time, so that memory holds one call's images and the small codes.

    Args:
        objects: Where they lie.
        embedder: The vision model.
        images: Page images, at least one, each of at most MAX_PAGE_IMAGE_BYTES.
        timeout_seconds: Bound of each call.

    Returns:
        The object to store: page i of it is image i.
    """
    pages: list[PageVectors] = []
    for group in _groups(images):
        contents = [
            await objects.get(image.key, max_byte_count=MAX_PAGE_IMAGE_BYTES, timeout_seconds=timeout_seconds)
            for image in group
        ]
        pages.extend(map(quantize, await embedder.embed_pages(contents, deadline_seconds=timeout_seconds)))
    target = io.BytesIO()
    np.savez(target, allow_pickle=False, **pack_pages(pages))
    return target.getvalue()


def _groups(images: Sequence[PageImage]) -> Iterator[Sequence[PageImage]]:
    for start in range(0, len(images), MAX_PAGES_PER_CALL):
        yield images[start : start + MAX_PAGES_PER_CALL]
