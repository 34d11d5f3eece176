"""The policy of every method, read from the contract's descriptors; a method without one does not start."""

from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from corpusmesh.type.v1 import policy_pb2
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, PermissionDeniedError
from corpusmesh_core.tenancy import CallerKind, Identity, Role, Scope

_KNOWLEDGE_BASE_PREFIX = "knowledgeBases/"


@dataclass(frozen=True, slots=True)
class MethodRule:
    """What a caller must be to use a method.

    Attributes:
        full_method: `/package.Service/Method`.
        for_services: Whether only services of the mesh may call it.
        minimum_role: Least role of a member.
        scope: Least scope of a member's key.
        knowledge_base_path: Field names that lead to the resource name; empty where the request names none.
        knowledge_base_optional: Whether a request may name none.
        request_type: Class of the request message.
        idempotent: Whether a client may send it again when the outcome is unknown.
        mutating: Whether it changes something.
    """

    full_method: str
    for_services: bool
    minimum_role: Role
    scope: Scope
    knowledge_base_path: tuple[str, ...]
    knowledge_base_optional: bool
    request_type: type[Message]
    idempotent: bool
    mutating: bool

    def authorize(self, identity: Identity) -> None:
        """Check the caller's kind, role and scope.

        Args:
            identity: Who calls.

        Raises:
            PermissionDeniedError: If it is not enough.
        """
        if self.for_services != (identity.kind is CallerKind.SERVICE):
            raise PermissionDeniedError("METHOD_NOT_FOR_CALLER", "this method is not open to this kind of caller")
        if self.for_services:
            return
        if identity.role < self.minimum_role:
            raise PermissionDeniedError(
                "ROLE_TOO_LOW",
                f"this needs the role {self.minimum_role.name.lower()}; ask an admin of your tenant",
                required_role=self.minimum_role.name.lower(),
            )
        if identity.scope < self.scope:
            raise PermissionDeniedError(
                "SCOPE_TOO_LOW",
                f"this needs an API key with the scope {self.scope.name.lower()}",
                required_scope=self.scope.name.lower(),
            )

    def knowledge_base_ids(self, request: Message) -> tuple[str, ...]:
        """Find the knowledge bases that a request names.

        Args:
            request: A message of `request_type`.

        Returns:
            Their identifiers; empty where the method names none.

        Raises:
            InvalidArgumentError: If the field is empty or is no name below `knowledgeBases/`.
        """
        if not self.knowledge_base_path:
            return ()
        value: object = request
        for field in self.knowledge_base_path:
            value = getattr(value, field)
        names = [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload]
        field_name = ".".join(self.knowledge_base_path)
        if not names and not self.knowledge_base_optional:
            raise InvalidArgumentError(
                "KNOWLEDGE_BASE_MISSING", f"set {field_name} to knowledgeBases/<id>", field=field_name
            )
        return tuple(dict.fromkeys(knowledge_base_id_of(str(name), field=field_name) for name in names))


def knowledge_base_id_of(name: str, *, field: str = "name") -> str:
    """Take the knowledge base's identifier out of a resource name.

    Args:
        name: `knowledgeBases/{knowledge_base}` or a resource below it.
        field: The request's field, for the message.

    Returns:
        The identifier.

    Raises:
        InvalidArgumentError: If the name has another shape.
        NotFoundError: If the identifier cannot be that of any knowledge base.
    """
    if not name.startswith(_KNOWLEDGE_BASE_PREFIX):
        raise InvalidArgumentError(
            "RESOURCE_NAME_INVALID", f"{field} must be a name like knowledgeBases/<id>", field=field
        )
    identifier = name.removeprefix(_KNOWLEDGE_BASE_PREFIX).split("/", 1)[0]
    if not identifier or len(identifier) > 63 or not all(c.isascii() and (c.isalnum() or c == "-") for c in identifier):
        raise knowledge_base_not_found()
    return identifier


def knowledge_base_not_found() -> NotFoundError:
    """Give the one error for a knowledge base that does not exist or that the caller may not see."""
    return NotFoundError("KNOWLEDGE_BASE_NOT_FOUND", "there is no such knowledge base, or you may not see it")


def rules_of(service_full_names: Iterable[str]) -> dict[str, MethodRule]:
    """Read the rules of services from their descriptors.

    Args:
        service_full_names: Such as `corpusmesh.ingest.v1.DocumentService`; their modules must be imported.

    Returns:
        A rule for every method, by `/package.Service/Method`.

    Raises:
        FailedPreconditionError: If a method has no policy, or an incomplete one.
    """
    pool = descriptor_pool.Default()
    rules: dict[str, MethodRule] = {}
    for service_full_name in service_full_names:
        service = pool.FindServiceByName(service_full_name)
        for method in service.methods:
            rule = _rule_of(service_full_name, method)
            rules[rule.full_method] = rule
    return rules


def _rule_of(service_full_name: str, method: MethodDescriptor) -> MethodRule:
    full_method = f"/{service_full_name}/{method.name}"
    options = method.GetOptions()
    policy = options.Extensions[policy_pb2.policy] if options.HasExtension(policy_pb2.policy) else None
    for_members = policy is not None and policy.audience == policy_pb2.AUDIENCE_MEMBER
    if policy is None or not policy.audience or (for_members and not (policy.minimum_role and policy.scope)):
        raise FailedPreconditionError(
            "METHOD_WITHOUT_POLICY",
            f"{full_method} has no complete policy option; a method without one does not start",
            method=full_method,
        )
    return MethodRule(
        full_method=full_method,
        for_services=not for_members,
        minimum_role=Role(policy.minimum_role or Role.OWNER),
        scope=Scope(policy.scope or Scope.PLATFORM),
        knowledge_base_path=tuple(filter(None, policy.knowledge_base_field.split("."))),
        knowledge_base_optional=policy.knowledge_base_optional,
        request_type=message_factory.GetMessageClass(method.input_type),
        idempotent=options.idempotency_level != options.IDEMPOTENCY_UNKNOWN,
        mutating=options.idempotency_level != options.NO_SIDE_EFFECTS,
    )
