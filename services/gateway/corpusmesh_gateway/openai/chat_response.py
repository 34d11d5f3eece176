"""An answer in the shape of OpenAI's chat completions, whole and piece by piece.

The text keeps its markers `[ID:n]`. What they refer to stands in `citations` (as other answer engines give it) and in
the message's `annotations` (as OpenAI gives it). How the answer was made stands in `corpusmesh`.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from corpusmesh.retrieve.v1 import answer_service_pb2 as pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import place_pb2
from corpusmesh_core.token_estimate import estimate_tokens
from corpusmesh_gateway.openai.chat_request import ChatQuestion

_MARKER = re.compile(r"\[ID:(\d{1,9})\]")
_MAX_QUOTE_CHARACTERS = 1000
_MAX_PLACES = 8
STREAM_END: Final = b"data: [DONE]\n\n"
Shape = dict[str, Any]


@dataclass(slots=True)
class Completion:
    """A chat completion that is being made.

    Attributes:
        question: What is asked.
        completion_id: Its identifier.
        created_seconds: When it began, seconds since 1970.
        text: Its text so far, as the caller gets it.
        finish_reason: Why it ended; None before.
        evidence: All evidence.
        summary: The end of the answer; None before, and where it was ended by the caller's bounds.
        snapshots: Snapshots that were searched.
    """

    question: ChatQuestion
    completion_id: str
    created_seconds: int
    text: str = ""
    finish_reason: str | None = None
    evidence: Sequence[pb.Citation] = ()
    summary: pb.AnswerSummary | None = None
    snapshots: Sequence[str] = field(default_factory=tuple)

    def take(self, response: pb.AnswerQuestionResponse) -> str:
        """Take the next message of the answer.

        Args:
            response: The message.

        Returns:
            The piece of text that it brings.
        """
        match response.WhichOneof("piece"):
            case "evidence":
                self.evidence = tuple(response.evidence.evidence)
                self.snapshots = tuple(response.evidence.snapshots)
            case "text_delta":
                return response.text_delta
            case "summary":
                self.summary = response.summary
        return ""

    def whole(self) -> Shape:
        """Write it as one object.

        Returns:
            A `chat.completion`.
        """
        message = {"role": "assistant", "content": self.text, "refusal": None, "annotations": self._annotations()}
        return {
            **self._head("chat.completion"),
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason or "stop"}
            ],
            "usage": self._usage(),
            "citations": self._citations(),
            "corpusmesh": self._account(),
        }

    def begin(self) -> bytes:
        """Write the first piece.

        Returns:
            An event.
        """
        return self._event({"role": "assistant", "content": "", "refusal": None})

    def piece(self, text: str) -> bytes:
        """Write a piece of text.

        Args:
            text: The text.

        Returns:
            An event.
        """
        return self._event({"content": text})

    def end(self) -> Iterable[bytes]:
        """Write what follows the text.

        Returns:
            Events: why it ended, with citations, then the usage where it was asked for, then the end mark.
        """
        yield self._event(
            {"annotations": self._annotations()},
            finish_reason=self.finish_reason or "stop",
            citations=self._citations(),
            corpusmesh=self._account(),
        )
        if self.question.wants_usage:
            yield _data({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield STREAM_END

    def _event(self, delta: Shape, finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice], **more}
        if self.question.wants_usage:
            chunk["usage"] = None
        return _data(chunk)

    def _head(self, kind: str) -> Shape:
        return {
            "id": self.completion_id,
            "object": kind,
            "created": self.created_seconds,
            "model": self.question.model,
            "system_fingerprint": None,
        }

    def _cited(self) -> dict[int, pb.Citation]:
        known = {citation.marker: citation for citation in self.evidence}
        if self.summary is not None:
            known.update({citation.marker: citation for citation in self.summary.citations})
        numbers = dict.fromkeys(int(match.group(1)) for match in _MARKER.finditer(self.text))
        return {number: known[number] for number in numbers if number in known}

    def _citations(self) -> list[Shape]:
        return [_citation(citation) for citation in self._cited().values()]

    def _annotations(self) -> list[Shape]:
        cited = self._cited()
        return [
            {
                "type": "url_citation",
                "url_citation": {
                    "start_index": match.start(),
                    "end_index": match.end(),
                    "title": cited[number].hit.title or cited[number].hit.place.display_name,
                    "url": url_of(cited[number]),
                },
            }
            for match in _MARKER.finditer(self.text)
            if (number := int(match.group(1))) in cited
        ]

    def _usage(self) -> Shape:
        """Estimate what a model read and wrote; nothing where none did."""
        summary = self.summary
        if summary is not None and summary.method == pb.AnswerSummary.METHOD_EXTRACTIVE:
            prompt = completion = 0
        else:
            prompt = self.question.question_tokens + sum(citation.hit.token_count for citation in self.evidence)
            completion = estimate_tokens(self.text)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "estimated": True,
        }

    def _account(self) -> Shape:
        account: Shape = {"snapshots": list(self.snapshots), "notes": list(self.question.notes)}
        if (summary := self.summary) is None:
            return account
        account["notes"] += summary.notes
        account |= {
            "method": pb.AnswerSummary.Method.Name(summary.method).removeprefix("METHOD_").lower(),
            "abstained": summary.abstained,
            "confidence": summary.confidence,
            "standalone_question": summary.standalone_question or None,
            "retrieval": summary.retrieval or None,
            "conversation": self.question.request.conversation or None,
        }
        if self.finish_reason is None and summary.text != self.text:
            # Citations that were placed afterwards: a stream cannot take back what it has sent.
            account["text"] = summary.text
        return account


def url_of(citation: pb.Citation) -> str:
    """Give an address that opens what a citation refers to, at its page.

    Args:
        citation: The citation.

    Returns:
        The address of a page of the web, or a path on this gateway; "" for what is in no document.
    """
    hit = citation.hit
    return hit.url or _url_of_place(_place_of(citation))


def _place_of(citation: pb.Citation) -> place_pb2.Place:
    """Tell where a citation stands: for a summary, in the first passage that bears out what it is cited for."""
    leaves = citation.places or citation.hit.leaves
    return leaves[0].place if citation.hit.layer and leaves else citation.hit.place


def _url_of_place(place: place_pb2.Place) -> str:
    if not place.version:
        return ""
    return f"/v1/{place.version}:original" + (f"#page={place.page}" if place.page else "")


def _citation(citation: pb.Citation) -> Shape:
    hit = citation.hit
    places = (citation.places or hit.leaves[:_MAX_PLACES]) if hit.layer else ()
    return {
        "marker": f"[ID:{citation.marker}]",
        "document": hit.document,
        "version": hit.place.version,
        "title": hit.title or hit.place.display_name,
        "file_name": hit.place.display_name,
        "page": hit.place.page or None,
        "heading_path": list(hit.place.heading_path),
        "url": url_of(citation),
        "text": hit.text[:_MAX_QUOTE_CHARACTERS],
        **({"places": [_place_shape(leaf) for leaf in places]} if places else {}),
    }


def _place_shape(leaf: retrieval_pb.HitLeaf) -> Shape:
    return {
        "document": leaf.document,
        "version": leaf.place.version,
        "title": leaf.title or leaf.place.display_name,
        "file_name": leaf.place.display_name,
        "page": leaf.place.page or None,
        "heading_path": list(leaf.place.heading_path),
        "url": _url_of_place(leaf.place),
    }


def _data(shape: Shape) -> bytes:
    return b"data: %s\n\n" % json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode()
