"""Edits of chunks as the store keeps them, and as the rules of `corpusmesh_core.chunking.edits` take them."""

from collections.abc import Mapping
from typing import Any

from corpusmesh_core.chunking.edits import ChunkAnchor, ChunkEdit, EditAction
from corpusmesh_core.errors import InternalError
from corpusmesh_core.ports.edits import ChunkEditRow, NewEdit


def stored_edit(edit: ChunkEdit) -> NewEdit:
    """Write an edit.

    Args:
        edit: The edit; its id is the store's to give.

    Returns:
        Anchor and change as JSON values; what the edit leaves alone is missing.
    """
    anchor = edit.anchor
    change: dict[str, object] = {"action": edit.action.value}
    if edit.text is not None:
        change["text"] = edit.text
    if edit.keywords is not None:
        change["keywords"] = list(edit.keywords)
    if edit.questions is not None:
        change["questions"] = list(edit.questions)
    if edit.tags is not None:
        change["tags"] = dict(edit.tags)
    if edit.enabled is not None:
        change["enabled"] = edit.enabled
    return NewEdit(
        anchor={
            "position": anchor.position,
            "text_sha256": anchor.text_sha256,
            "heading_path": list(anchor.heading_path),
            "excerpt_start": anchor.excerpt_start,
            "excerpt_end": anchor.excerpt_end,
            "page": anchor.page,
        },
        change=change,
    )


def edit_of_row(row: ChunkEditRow) -> ChunkEdit:
    """Read an edit.

    Args:
        row: What `stored_edit` made, as it was stored.

    Returns:
        The edit.

    Raises:
        InternalError: CHUNK_EDIT_MALFORMED if it is none.
    """
    anchor: Mapping[str, Any] = row.anchor
    change: Mapping[str, Any] = row.change
    try:
        return ChunkEdit(
            edit_id=row.edit_id,
            action=EditAction(change["action"]),
            anchor=ChunkAnchor(
                position=int(anchor["position"]),
                text_sha256=anchor["text_sha256"],
                heading_path=tuple(anchor["heading_path"]),
                excerpt_start=anchor["excerpt_start"],
                excerpt_end=anchor["excerpt_end"],
                page=int(anchor["page"]),
            ),
            text=change.get("text"),
            keywords=_texts(change.get("keywords")),
            questions=_texts(change.get("questions")),
            tags={name: float(weight) for name, weight in change["tags"].items()} if "tags" in change else None,
            enabled=change.get("enabled"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InternalError("CHUNK_EDIT_MALFORMED", "an edit of a chunk cannot be read", edit=row.edit_id) from error


def _texts(values: Any) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(value) for value in values)
