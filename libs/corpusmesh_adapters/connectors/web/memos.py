"""What is kept of a page between two syncs, and how a page becomes an item."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from corpusmesh_adapters.connectors.web.addresses import display_name
from corpusmesh_adapters.connectors.web.client import WebAnswer
from corpusmesh_core.sources import FailedItem, KnownItem, SourceItem

_MAX_MEMO_CHARACTERS = 8192


def page_item(url: str, answer: WebAnswer, links: Sequence[str], origin: httpx.URL, changed: str) -> SourceItem:
    """Make the item of a page that was fetched.

    Args:
        url: Its normalised address.
        answer: What the site answered.
        links: Where it links to.
        origin: The site.
        changed: What the sitemap says of its last change; "" for nothing.

    Returns:
        The item; its etag is the digest of its content.
    """
    name = display_name(answer.url, answer.media_type)
    root = str(origin.copy_with(raw_path=b"/", fragment=None)).rstrip("/")
    memo = {
        "etag": answer.headers.get("etag", "")[:1024],
        "modified": answer.headers.get("last-modified", "")[:64],
        "changed": changed,
        "name": name,
        "links": _within([link.removeprefix(root) for link in links], _MAX_MEMO_CHARACTERS),
    }
    return SourceItem(
        key=url,
        display_name=name,
        etag=answer.sha256,
        size_bytes=answer.size_bytes,
        modified=_moment(answer.headers.get("last-modified", "")),
        source_uri=url,
        metadata={"site": answer.url.host},
        memo=write_memo(memo),
    )


def _within(links: Sequence[str], max_characters: int) -> list[str]:
    """Keep links as long as they fit: what is known of a whole site is in memory during a sync."""
    kept = []
    for link in links:
        max_characters -= len(link)
        if max_characters < 0:
            break
        kept.append(link)
    return kept


def conditions(known: KnownItem | None, memo: Mapping[str, Any]) -> dict[str, str]:
    """Ask for a page only if it has changed since it was taken in.

    Args:
        known: What is known of it.
        memo: Its memo.

    Returns:
        Headers; none where it was never taken in.
    """
    if known is None or not known.etag or not known.document_id:
        return {}
    headers = {"If-None-Match": str(memo.get("etag", "")), "If-Modified-Since": str(memo.get("modified", ""))}
    return {name: value for name, value in headers.items() if value}


def read_memo(known: KnownItem | None) -> dict[str, Any]:
    """Read what was kept of a page.

    Args:
        known: What is known of it.

    Returns:
        `etag`, `modified`, `changed`, `name` and `links`, as far as they are known.
    """
    if known is None or not known.memo:
        return {}
    value = json.loads(known.memo)
    return value if isinstance(value, dict) else {}


def write_memo(memo: Mapping[str, Any]) -> str:
    """Write what `read_memo` reads."""
    return json.dumps(memo, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _moment(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None


def failed_page(url: str, reason: str, message: str) -> FailedItem:
    """Say that a page could not be looked at."""
    return FailedItem(url, display_name(httpx.URL(url), ""), reason, message)
