"""Corrections of graphs between the contract and core: which entities they name, and what the caller may see."""

from collections.abc import Collection, Sequence

from corpusmesh.graph.v1 import graph_input_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.graphs import corrections as core
from corpusmesh_core.ports.graph_inputs import CorrectionRow
from corpusmesh_graph.names import (
    correction_name,
    document_name,
    document_of,
    entity_key_of,
    entity_name,
    entity_not_found,
)
from corpusmesh_graph.scenes import GraphScene
from corpusmesh_runtime.timestamps import timestamp

_MAX_MERGED = 100


def correction_from_wire(scene: GraphScene, message: pb.Correction) -> core.Correction:
    """Read a correction; entities that it names must be there for the caller to see.

    Args:
        scene: What the caller may see.
        message: The correction.

    Returns:
        The correction, by all keys that the named entities have.

    Raises:
        InvalidArgumentError: GRAPH_CORRECTION_INVALID if nothing is changed, or a field is none.
        NotFoundError: GRAPH_ENTITY_NOT_FOUND if there is no such entity that the caller may see.
    """
    kind = message.WhichOneof("change")
    if kind is None:
        raise InvalidArgumentError(
            "GRAPH_CORRECTION_INVALID", "say what to correct: set one change", field="correction.change"
        )
    return _READERS[kind](_Named(scene, f"correction.{kind}"), message)


def correction_to_wire(row: CorrectionRow[core.Correction], knowledge_base_id: str) -> pb.Correction:
    """Write a correction.

    Args:
        row: As it is stored.
        knowledge_base_id: Knowledge base of the graph.

    Returns:
        The message.
    """
    message = pb.Correction(
        name=correction_name(knowledge_base_id, row.correction_id),
        user=row.user_id,
        create_time=timestamp(row.create_time),
    )
    correction = row.correction
    match correction:
        case core.MergeEntities(keys, target):
            message.merge.entities.extend(entity_name(knowledge_base_id, key) for key in keys)
            message.merge.into = entity_name(knowledge_base_id, target)
        case core.SplitEntity(keys, document_ids, name):
            message.split.entity = entity_name(knowledge_base_id, keys[0])
            message.split.documents.extend(document_name(knowledge_base_id, one) for one in document_ids)
            message.split.new_title = name
        case core.KeepApart(key, other):
            message.keep_apart.entity = entity_name(knowledge_base_id, key)
            message.keep_apart.other_entity = entity_name(knowledge_base_id, other)
        case core.RenameEntity(key, name):
            message.rename.entity, message.rename.new_title = entity_name(knowledge_base_id, key), name
        case core.EditEntity():
            _put_entity_edit(message.edit_entity, correction, knowledge_base_id)
        case core.DeleteEntity(keys):
            message.delete_entity.entity = entity_name(knowledge_base_id, keys[0])
        case core.EditRelation():
            _put_relation_edit(message.edit_relation, correction, knowledge_base_id)
        case core.DeleteRelation(source, target):
            message.delete_relation.entity = entity_name(knowledge_base_id, source)
            message.delete_relation.other_entity = entity_name(knowledge_base_id, target)
    return message


def keys_of(correction: core.Correction) -> Sequence[int]:
    """List the keys that a correction names.

    Args:
        correction: The correction.

    Returns:
        Keys of names.
    """
    match correction:
        case core.MergeEntities(keys, target):
            return (*keys, target)
        case core.SplitEntity(keys) | core.DeleteEntity(keys):
            return keys
        case core.KeepApart(key, other):
            return (key, other)
        case core.RenameEntity(key) | core.EditEntity(key):
            return (key,)
        case core.EditRelation(source, target) | core.DeleteRelation(source, target):
            return (source, target)


class _Named:
    """Reads how the fields of one change name entities."""

    def __init__(self, scene: GraphScene, field: str) -> None:
        self.scene = scene
        self.field = field

    def place(self, name: str, field: str) -> int:
        key = entity_key_of(name, self.scene.knowledge_base_id, field=f"{self.field}.{field}")
        place = int(self.scene.graph.find([key])[0])
        if place < 0:
            raise entity_not_found()
        return place

    def key(self, name: str, field: str) -> int:
        return int(self.scene.graph.entity_keys[self.place(name, field)])

    def keys(self, name: str, field: str) -> tuple[int, ...]:
        return self.scene.keys(self.place(name, field))


def _merge(named: _Named, message: pb.Correction) -> core.Correction:
    merge = message.merge
    if not 1 <= len(merge.entities) <= _MAX_MERGED:
        raise _invalid(f"{named.field}.entities", f"name 1 to {_MAX_MERGED} entities")
    target = named.place(merge.into, "into")
    keys = dict.fromkeys(key for name in merge.entities for key in named.keys(name, "entities"))
    if not keys.keys().isdisjoint(named.scene.keys(target)):
        raise _invalid(f"{named.field}.into", "an entity cannot be merged into itself")
    return core.MergeEntities(tuple(keys), int(named.scene.graph.entity_keys[target]))


def _split(named: _Named, message: pb.Correction) -> core.Correction:
    split = message.split
    base = named.scene.knowledge_base_id
    ids = (document_of(name, base, field=f"{named.field}.documents") for name in split.documents)
    return core.SplitEntity(named.keys(split.entity, "entity"), tuple(dict.fromkeys(ids)), split.new_title)


def _keep_apart(named: _Named, message: pb.Correction) -> core.Correction:
    # Two names of one entity are told apart by their own keys, not by that of the entity.
    base, pair = named.scene.knowledge_base_id, message.keep_apart
    keys = []
    for field in ("entity", "other_entity"):
        named.place(getattr(pair, field), field)
        keys.append(entity_key_of(getattr(pair, field), base, field=f"{named.field}.{field}"))
    return core.KeepApart(*keys)


def _rename(named: _Named, message: pb.Correction) -> core.Correction:
    return core.RenameEntity(named.key(message.rename.entity, "entity"), message.rename.new_title)


def _edit_entity(named: _Named, message: pb.Correction) -> core.Correction:
    edit = message.edit_entity
    return core.EditEntity(
        named.key(edit.entity, "entity"),
        edit.type if edit.HasField("type") else None,
        edit.description if edit.HasField("description") else None,
    )


def _delete_entity(named: _Named, message: pb.Correction) -> core.Correction:
    return core.DeleteEntity(named.keys(message.delete_entity.entity, "entity"))


def _edit_relation(named: _Named, message: pb.Correction) -> core.Correction:
    edit = message.edit_relation
    return core.EditRelation(
        named.key(edit.entity, "entity"),
        named.key(edit.other_entity, "other_entity"),
        edit.predicate if edit.HasField("predicate") else None,
        edit.description if edit.HasField("description") else None,
        tuple(edit.keywords) or None,
    )


def _delete_relation(named: _Named, message: pb.Correction) -> core.Correction:
    pair = message.delete_relation
    return core.DeleteRelation(named.key(pair.entity, "entity"), named.key(pair.other_entity, "other_entity"))


def _put_entity_edit(message: pb.EditEntity, edit: core.EditEntity, knowledge_base_id: str) -> None:
    message.entity = entity_name(knowledge_base_id, edit.key)
    if edit.type is not None:
        message.type = edit.type
    if edit.description is not None:
        message.description = edit.description


def _put_relation_edit(message: pb.EditRelation, edit: core.EditRelation, knowledge_base_id: str) -> None:
    message.entity = entity_name(knowledge_base_id, edit.source)
    message.other_entity = entity_name(knowledge_base_id, edit.target)
    if edit.predicate is not None:
        message.predicate = edit.predicate
    if edit.description is not None:
        message.description = edit.description
    message.keywords.extend(edit.keywords or ())


def _invalid(field: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError("GRAPH_CORRECTION_INVALID", message, field=field)


def sees_all_of(scene: GraphScene, keys: Collection[int]) -> bool:
    """Tell whether the caller may see every entity of some keys.

    Args:
        scene: What the caller may see.
        keys: The keys.

    Returns:
        Whether each leads to an entity.
    """
    return bool((scene.graph.find(list(keys)) >= 0).all())


_READERS = {
    "merge": _merge,
    "split": _split,
    "keep_apart": _keep_apart,
    "rename": _rename,
    "edit_entity": _edit_entity,
    "delete_entity": _delete_entity,
    "edit_relation": _edit_relation,
    "delete_relation": _delete_relation,
}
