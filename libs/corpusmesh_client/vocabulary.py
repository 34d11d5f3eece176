"""The tenant's own words."""

from collections.abc import Iterable

from google.protobuf.field_mask_pb2 import FieldMask

from corpusmesh.retrieve.v1 import vocabulary_service_pb2 as pb
from corpusmesh.retrieve.v1.vocabulary_service_pb2_grpc import VocabularyServiceStub
from corpusmesh_client.calls import Caller


class VocabularyCalls:
    """Calls on the vocabulary."""

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        self._caller = caller
        self._stub = VocabularyServiceStub(caller.channel)

    async def get(self) -> pb.Vocabulary:
        """Read the vocabulary.

        Returns:
            The vocabulary.
        """
        return await self._caller.unary(
            self._stub.GetVocabulary, pb.GetVocabularyRequest(), timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def update(
        self,
        *,
        terms: Iterable[str] | None = None,
        synonyms: Iterable[Iterable[str]] | None = None,
        etag: str = "",
    ) -> pb.Vocabulary:
        """Replace terms, synonyms, or both.

        Args:
            terms: Terms that are searched as phrases; None to leave them as they are.
            synonyms: Groups of words that mean the same; None to leave them as they are.
            etag: Etag of the vocabulary that is replaced; "" to write over any.

        Returns:
            The vocabulary as it is now.
        """
        paths = [name for name, given in (("terms", terms), ("synonyms", synonyms)) if given is not None]
        request = pb.UpdateVocabularyRequest(
            vocabulary=pb.Vocabulary(
                terms=terms or (),
                synonyms=[pb.Vocabulary.SynonymGroup(words=group) for group in synonyms or ()],
                etag=etag,
            ),
            update_mask=FieldMask(paths=paths),
        )
        return await self._caller.unary(
            self._stub.UpdateVocabulary, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
