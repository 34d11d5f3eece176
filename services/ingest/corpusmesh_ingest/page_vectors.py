"""Vectors of page images: what a vision model sees of a version's pages, as one object beside its other artefacts."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from corpusmesh_core.ports.objects import ObjectInfo, ObjectStore
from corpusmesh_core.ports.page_embedding import MAX_PAGE_IMAGE_BYTES, MAX_PAGES_PER_CALL, PageEmbedder
from corpusmesh_core.ranking import PageVectors, pack_pages, quantize

_PAGE_NAME = re.compile(r"page-([1-9][0-9]{0,6})")
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


async def list_page_images(objects: ObjectStore, prefix: str, *, timeout_seconds: float) -> list[PageImage]:
    """List the page images of a version.

    Args:
        objects: The store.
        prefix: Where the version's pictures lie; ends with "/".
        timeout_seconds: Bound of the listing.

    Returns:
        Page images by page.
    """
    found: list[PageImage] = []
    async for info in objects.list_prefix(prefix, max_object_count=_MAX_PICTURES, timeout_seconds=timeout_seconds):
        page = _page_of(info, prefix)
        if page:
            found.append(PageImage(page, info.key, info.byte_count))
    return sorted(found, key=lambda image: image.page)


async def embed_page_images(
    objects: ObjectStore, embedder: PageEmbedder, images: Sequence[PageImage], *, timeout_seconds: float
) -> tuple[list[PageImage], bytes]:
    """Embed page images, a few at a time, so that memory holds one call's images and the small codes.

    Args:
        objects: Where they lie.
        embedder: The vision model.
        images: Page images.
        timeout_seconds: Bound of each call.

    Returns:
        The images that were embedded (those above MAX_PAGE_IMAGE_BYTES are not), and the object to store: page i of it
        is image i of the list. No image, no bytes.
    """
    embedded = [image for image in images if image.byte_count <= MAX_PAGE_IMAGE_BYTES]
    pages: list[PageVectors] = []
    for group in _groups(embedded):
        contents = [
            await objects.get(image.key, max_byte_count=MAX_PAGE_IMAGE_BYTES, timeout_seconds=timeout_seconds)
            for image in group
        ]
        pages.extend(map(quantize, await embedder.embed_pages(contents, deadline_seconds=timeout_seconds)))
    if not pages:
        return [], b""
    target = io.BytesIO()
    np.savez(target, allow_pickle=False, **pack_pages(pages))
    return embedded, target.getvalue()


def _groups(images: Sequence[PageImage]) -> Iterator[Sequence[PageImage]]:
    for start in range(0, len(images), MAX_PAGES_PER_CALL):
        yield images[start : start + MAX_PAGES_PER_CALL]


def _page_of(info: ObjectInfo, prefix: str) -> int:
    match = _PAGE_NAME.fullmatch(info.key.removeprefix(prefix))
    return int(match.group(1)) if match else 0
