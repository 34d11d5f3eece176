"""The JSON shapes of conversations, documented in `docs/guide/cli.md` and stable like those of `shapes`."""

from corpusmesh.retrieve.v1 import conversation_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_app.cli.retrieval_shapes import citation_shape
from corpusmesh_app.cli.shapes import Shape, time_of
from corpusmesh_client.names import identifier_of


def conversation_shape(conversation: pb.Conversation) -> Shape:
    """Describe a conversation.

    Args:
        conversation: The conversation.

    Returns:
        Its shape.
    """
    return {
        "name": conversation.name,
        "id": identifier_of(conversation.name),
        "title": conversation.title,
        "knowledge_bases": list(conversation.knowledge_bases),
        "message_count": conversation.message_count,
        "create_time": time_of(conversation, "create_time"),
        "update_time": time_of(conversation, "update_time"),
    }


def message_shape(message: pb.Message) -> Shape:
    """Describe a message.

    Args:
        message: The message.

    Returns:
        Its shape.
    """
    return {
        "name": message.name,
        "speaker": retrieval_pb.Turn.Speaker.Name(message.speaker).removeprefix("SPEAKER_").lower(),
        "text": message.text,
        "citations": [citation_shape(citation) for citation in message.citations],
        "knowledge_bases": list(message.knowledge_bases),
        "withheld": message.withheld,
        "erased": message.erased,
        "partial": message.partial,
        "create_time": time_of(message, "create_time"),
    }
