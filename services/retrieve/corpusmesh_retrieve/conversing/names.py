"""Names of conversations and messages, and their wire form."""

import re
from datetime import datetime

from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import conversation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.ports.conversations import ConversationRow, MessageRow

_NAME = re.compile(r"conversations/([a-z0-9-]{1,63})")


def conversation_id_of(name: str, *, field: str = "name") -> str:
    """Take the identifier out of a name.

    Args:
        name: `conversations/{conversation}`.
        field: The request's field, for the message.

    Returns:
        The identifier.

    Raises:
        InvalidArgumentError: If the name has another shape.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InvalidArgumentError(
            "RESOURCE_NAME_INVALID", f"{field} must be a name like conversations/<id>", field=field
        )
    return match.group(1)


def conversation_to_wire(row: ConversationRow) -> pb.Conversation:
    """Write a conversation.

    Args:
        row: The conversation.

    Returns:
        The conversation.
    """
    return pb.Conversation(
        name=f"conversations/{row.conversation_id}",
        title=row.title,
        knowledge_bases=[f"knowledgeBases/{identifier}" for identifier in row.knowledge_base_ids],
        message_count=row.message_count,
        create_time=_timestamp(row.create_time),
        update_time=_timestamp(row.update_time),
    )


def message_to_wire(conversation_id: str, row: MessageRow, *, is_shown: bool) -> pb.Message:
    """Write a message.

    Args:
        conversation_id: Its conversation.
        row: The message.
        is_shown: Whether the caller may see what it was made from.

    Returns:
        The message; of one that is not shown neither text nor citations nor knowledge bases.
    """
    speaker = retrieval_pb.Turn.SPEAKER_USER if row.is_user else retrieval_pb.Turn.SPEAKER_ASSISTANT
    message = pb.Message(
        name=f"conversations/{conversation_id}/messages/{row.position + 1}",
        speaker=speaker,
        erased=row.is_erased,
        partial=row.is_partial,
        create_time=_timestamp(row.create_time),
    )
    if row.is_erased:
        return message
    if not is_shown:
        message.withheld = True
        return message
    message.text = row.text
    message.knowledge_bases.extend(f"knowledgeBases/{identifier}" for identifier in row.knowledge_base_ids)
    message.citations.extend(
        # A field that a later release has put there is passed over by an earlier one.
        json_format.ParseDict(dict(citation), answer_pb.Citation(), ignore_unknown_fields=True)
        for citation in row.citations
    )
    return message


def _timestamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
