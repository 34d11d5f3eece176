"""Rules of the gateway that need no connection: limits, routes, transcoding, members, names and pages."""

import asyncio
import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2  # noqa: F401 - puts the service into the pool
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh_core.errors import (
    CorpusMeshError,
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.tenancy.members import User
from corpusmesh_gateway import GatewaySettings, bootstrap_first_admin, convert, members
from corpusmesh_gateway.auditing import AuditDenials
from corpusmesh_gateway.authentication import ApiKeyAuthenticator, AuthenticatorChain, CredentialNotMineError
from corpusmesh_gateway.config import AuthenticationSettings
from corpusmesh_gateway.errors import TooLargeError, transport_error
from corpusmesh_gateway.http.responses import attachment_headers, status_json
from corpusmesh_gateway.http.routes import MethodNotAllowedError, RouteTable, compile_template
from corpusmesh_gateway.http.transcoding import build_request, to_json
from corpusmesh_gateway.limits import RequestRate, StreamSlots
from corpusmesh_runtime.policy import rules_of
from tests.support.gateway_mesh import make_member_key, stores_of
from tests.support.memory_members import Members, MemoryKeys

SERVICES = ("corpusmesh.ingest.v1.KnowledgeBaseService", "corpusmesh.ingest.v1.DocumentService")
ROUTES = RouteTable(SERVICES, rules_of(SERVICES))


def caller(role: Role = Role.ADMIN, scope: Scope = Scope.ADMIN, user_id: str = "caller", key_id: str = "k") -> Identity:
    return Identity("acme", user_id, role, scope, key_id=key_id)


def take(rate: RequestRate, key_id: str = "k") -> float:
    """Take a token; give 0, or the delay of the refusal."""
    try:
        with rate.hold(caller(key_id=key_id), streaming=False):
            return 0.0
    except OverloadedError as error:
        return error.retry_delay_seconds or 0.0


def outcome(work: Callable[[], object]) -> str:
    """Do something; give the reason of the typed error, "" where there is none."""
    try:
        work()
    except CorpusMeshError as error:
        return error.reason
    return ""


class TestLimits:
    def test_bucket_gives_its_burst_then_one_token_at_its_rate(self) -> None:
        now = [100.0]
        rate = RequestRate(2.0, 3, clock=lambda: now[0])
        assert [take(rate) for _ in range(4)] == [0, 0, 0, pytest.approx(0.5)]
        now[0] += 0.25
        assert take(rate) == pytest.approx(0.25)
        now[0] += 0.25
        assert take(rate) == 0
        now[0] += 1000
        assert [take(rate) > 0 for _ in range(4)] == [False, False, False, True]

    def test_bucket_of_one_key_leaves_that_of_another_alone(self) -> None:
        rate = RequestRate(1.0, 1, clock=lambda: 0.0)
        assert take(rate, "a") == 0
        assert take(rate, "a") > 0
        assert take(rate, "b") == 0

    def test_slots_are_freed_also_when_the_stream_fails(self) -> None:
        slots = StreamSlots(1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), slots.hold(caller(), streaming=True):
                raise ZeroDivisionError
        with slots.hold(caller(), streaming=True):
            with pytest.raises(OverloadedError), slots.hold(caller(), streaming=True):
                pass
            with slots.hold(caller(), streaming=False), slots.hold(caller(key_id="other"), streaming=True):
                pass
        assert not slots._open


class TestRoutes:
    @pytest.mark.parametrize(
        ("template", "path", "groups"),
        [
            ("/v1/{name=knowledgeBases/*}", "/v1/knowledgeBases/a", ("knowledgeBases/a",)),
            ("/v1/{name=knowledgeBases/*}", "/v1/knowledgeBases/a:rollback", None),
            ("/v1/{name=knowledgeBases/*}", "/v1/knowledgeBases/a/documents/b", None),
            ("/v1/{name=knowledgeBases/*}:rollback", "/v1/knowledgeBases/a:rollback", ("knowledgeBases/a",)),
            ("/v1/{parent=users/*}/apiKeys", "/v1/users/u/apiKeys", ("users/u",)),
            ("/v1/{id}/x", "/v1/7/x", ("7",)),
            ("/v1/a.b", "/v1/aXb", None),
        ],
    )
    def test_template_matches_whole_segments(self, template: str, path: str, groups: tuple[str, ...] | None) -> None:
        match = compile_template(template)[0].fullmatch(path)
        assert (match.groups() if match else None) == groups

    def test_value_is_decoded_but_never_into_more_segments(self) -> None:
        _, values = ROUTES.find("GET", "/v1/knowledgeBases/a%41%E7%9F%A5")
        assert values == {"name": "knowledgeBases/aA知"}
        for path in (
            "/v1/knowledgeBases/a%2Fdocuments%2Fb",
            "/v1/knowledgeBases/a%0A",
            "/v1/knowledgeBases/a%2f",
            "/v1/knowledgeBases/%FF",
        ):
            with pytest.raises(NotFoundError):
                ROUTES.find("GET", path)

    def test_known_path_with_another_http_method_names_those_it_takes(self) -> None:
        with pytest.raises(MethodNotAllowedError) as caught:
            ROUTES.find("PUT", "/v1/knowledgeBases/a")
        assert caught.value.allowed == "DELETE, GET, PATCH"

    def test_methods_that_are_not_open_have_no_path(self) -> None:
        assert RouteTable(SERVICES, []).bindings == ()

    @given(st.text(max_size=60))
    def test_any_path_finds_a_binding_or_a_typed_error(self, tail: str) -> None:
        reason = outcome(lambda: ROUTES.find("GET", f"/v1/knowledgeBases/{tail}"))
        assert reason in ("", "ROUTE_NOT_FOUND", "HTTP_METHOD_NOT_ALLOWED")


class TestTranscoding:
    def build(self, http_method: str, path: str, query: list[tuple[str, str]], body: bytes = b"") -> Any:
        binding, variables = ROUTES.find(http_method, path)
        return build_request(binding, variables, query, body)

    def test_query_takes_both_spellings_of_a_name(self) -> None:
        for name in ("pageSize", "page_size"):
            assert self.build("GET", "/v1/knowledgeBases", [(name, "7")]).page_size == 7

    def test_field_of_the_path_in_the_query_or_body_does_not_change_the_path(self) -> None:
        request = self.build("GET", "/v1/knowledgeBases/a/documents", [("parent", "knowledgeBases/b")])
        assert request.parent == "knowledgeBases/a"
        body = json.dumps({"name": "knowledgeBases/b", "snapshot": "s"}).encode()
        request = self.build("POST", "/v1/knowledgeBases/a:rollback", [], body)
        assert (request.name, request.snapshot) == ("knowledgeBases/a", "s")

    def test_body_where_none_is_taken_is_refused(self) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            self.build("DELETE", "/v1/knowledgeBases/a", [], b"{}")
        assert caught.value.reason == "BODY_UNEXPECTED"

    def test_message_goes_to_json_and_back_unchanged(self) -> None:
        document = document_pb.Document(name="knowledgeBases/a/documents/d", title="标题", metadata={"k": "v"})
        document.create_time.FromSeconds(1_700_000_000)
        body = b'{"document":%s}' % to_json(document)
        request = self.build("PATCH", "/v1/knowledgeBases/a/documents/d", [], body)
        assert request.document == document

    def test_fields_without_presence_are_always_there(self) -> None:
        content = json.loads(to_json(retrieval_pb.SearchChunksResponse()))
        assert content == {
            "hits": [],
            "nextPageToken": "",
            "snapshots": [],
            "totalSize": 0,
            "unreachable": [],
            "inferredConditions": [],
            "standaloneQuery": "",
            "retrieval": "",
        }

    @given(st.binary(max_size=200))
    def test_any_body_is_a_request_or_a_typed_error(self, body: bytes) -> None:
        assert outcome(lambda: self.build("POST", "/v1/knowledgeBases", [], body)) in ("", "JSON_INVALID")

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=10,
        )
    )
    def test_any_json_is_a_request_or_a_typed_error(self, content: Any) -> None:
        body = json.dumps(content).encode()
        assert outcome(lambda: self.build("POST", "/v1/knowledgeBases", [], body)) in ("", "JSON_INVALID")

    @given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=4))
    def test_any_query_is_a_request_or_a_typed_error(self, query: list[tuple[str, str]]) -> None:
        reason = outcome(lambda: self.build("GET", "/v1/knowledgeBases", query))
        assert reason in ("", "FIELD_UNKNOWN", "FIELD_TWICE", "JSON_INVALID")

    @given(st.text(max_size=400), st.text(max_size=80))
    def test_any_file_name_and_media_type_make_headers_that_cannot_break_out(self, name: str, media_type: str) -> None:
        for value in attachment_headers(name.encode("utf-8", "replace").decode(), media_type).values():
            assert value.isascii()
            assert value.isprintable()
            assert value.count('"') in (0, 2)

    def test_detail_of_an_unknown_kind_does_not_hide_the_error(self) -> None:
        status = Status(code=5, message="gone")
        status.details.add(type_url="type.googleapis.com/nobody.knows.This", value=b"x")
        assert json.loads(status_json(status)) == {"code": 5, "message": "gone"}


def user(role: Role, user_id: str = "somebody") -> User:
    return User("acme", user_id, "", role, (), False, datetime.now(UTC))


class TestMembers:
    @pytest.mark.parametrize("role", list(Role))
    @pytest.mark.parametrize("target", list(Role))
    def test_admin_manages_those_below_and_owner_manages_all(self, role: Role, target: Role) -> None:
        allowed = role is Role.OWNER or target < Role.ADMIN
        for check in (
            lambda: members.require_may_manage(caller(role), user(target)),
            lambda: members.require_may_grant_role(caller(role), target),
        ):
            if allowed:
                check()
            else:
                with pytest.raises(PermissionDeniedError):
                    check()

    def test_one_may_always_manage_oneself_but_not_promote_oneself(self) -> None:
        members.require_may_manage(caller(Role.ADMIN), user(Role.ADMIN, "caller"))
        members.require_may_grant_role(caller(Role.ADMIN), Role.ADMIN, held=Role.ADMIN)
        with pytest.raises(PermissionDeniedError):
            members.require_may_grant_role(caller(Role.ADMIN), Role.OWNER, held=Role.ADMIN)

    @pytest.mark.parametrize("own", list(Scope))
    @pytest.mark.parametrize("wanted", list(Scope))
    def test_key_is_given_no_more_scope_than_the_callers_own(self, own: Scope, wanted: Scope) -> None:
        if wanted <= own:
            members.require_may_grant_scope(caller(scope=own), wanted)
        else:
            with pytest.raises(PermissionDeniedError):
                members.require_may_grant_scope(caller(scope=own), wanted)


class TestConvert:
    def test_page_token_is_taken_by_its_own_query_alone(self) -> None:
        token = convert.make_page_token("keys", "acme", "anna", after_key="知")
        assert convert.read_page_token(token, "keys", "acme", "anna") == "知"
        assert convert.read_page_token("", "keys") == ""
        for query in (("keys", "acme", "bert"), ("keys", "other", "anna"), ("users", "acme")):
            with pytest.raises(InvalidArgumentError):
                convert.read_page_token(token, *query)

    @given(st.text(max_size=60))
    def test_any_page_token_is_read_or_a_typed_error(self, token: str) -> None:
        reason = outcome(lambda: convert.read_page_token(token, "users", "acme"))
        assert reason == ("PAGE_TOKEN_INVALID" if token else "")

    @pytest.mark.parametrize(("given_size", "size"), [(0, 50), (1, 1), (500, 500), (501, 500), (2**31 - 1, 500)])
    def test_page_size_has_a_default_and_a_bound(self, given_size: int, size: int) -> None:
        assert convert.read_page_size(given_size) == size

    @pytest.mark.parametrize("name", ["", "users/", "users/A", "users/a/b", "people/a", "users/" + "a" * 64, "a"])
    def test_name_of_another_shape_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidArgumentError):
            convert.read_user_id(name, field="name")

    @pytest.mark.parametrize("seconds", [-(2**40), 0, 2**50])
    def test_expire_time_that_is_past_or_no_time_is_refused(self, seconds: int) -> None:
        with pytest.raises(InvalidArgumentError):
            convert.read_expire_time(Timestamp(seconds=seconds), now=datetime.now(UTC))

    def test_expire_time_keeps_its_moment(self) -> None:
        moment = datetime.now(UTC) + timedelta(days=1)
        message = Timestamp()
        message.FromDatetime(moment)
        assert convert.read_expire_time(message, now=datetime.now(UTC)) == moment

    def test_groups_are_sorted_and_unique_and_bounded(self) -> None:
        assert convert.read_groups(["b", "a", "b"], field="groups") == ("a", "b")
        for groups in ([""], ["a\n"], ["a" * 101], [f"g{place}" for place in range(101)]):
            with pytest.raises(InvalidArgumentError):
                convert.read_groups(groups, field="groups")


class SlowKeys(MemoryKeys):
    """Never answers."""

    async def identify(self, key: Any) -> Identity | None:
        await asyncio.Event().wait()
        return None


class TestAuthentication:
    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    async def test_key_is_found_whatever_the_case_of_the_scheme(self, scheme: str) -> None:
        state = Members()
        key = make_member_key(state, Role.EDITOR, Scope.WRITE)
        authenticator = ApiKeyAuthenticator(MemoryKeys(state), AuthenticationSettings())
        identity = await authenticator.authenticate({"authorization": f"{scheme} {key}"})
        assert (identity.user_id, identity.role, identity.scope) == ("editor", Role.EDITOR, Scope.WRITE)

    async def test_cached_key_is_not_good_with_another_secret(self) -> None:
        state = Members()
        key = make_member_key(state, Role.EDITOR, Scope.WRITE)
        authenticator = ApiKeyAuthenticator(MemoryKeys(state), AuthenticationSettings(key_cache_seconds=5))
        await authenticator.authenticate({"authorization": f"Bearer {key}"})
        wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
        with pytest.raises(UnauthenticatedError):
            await authenticator.authenticate({"authorization": f"Bearer {wrong}"})
        await authenticator.authenticate({"authorization": f"Bearer {key}"})
        assert state.look_ups == 2

    async def test_store_that_does_not_answer_is_unavailable_within_the_deadline(self) -> None:
        state = Members()
        key = make_member_key(state, Role.EDITOR, Scope.WRITE)
        settings = AuthenticationSettings(key_lookup_timeout_seconds=0.05)
        authenticator = ApiKeyAuthenticator(SlowKeys(state), settings)
        with pytest.raises(UnavailableError):
            await authenticator.authenticate({"authorization": f"Bearer {key}"})

    async def test_chain_asks_the_next_only_for_credentials_of_another_kind(self) -> None:
        state = Members()
        keys = ApiKeyAuthenticator(MemoryKeys(state), AuthenticationSettings())
        asked = []

        class Tokens:
            async def authenticate(self, metadata: Any) -> Identity:
                asked.append(metadata["authorization"])
                if metadata["authorization"] != "Bearer eyJ":
                    raise CredentialNotMineError("CREDENTIAL_MISSING", "not mine")
                return caller()

        chain = AuthenticatorChain([keys, Tokens()])
        assert (await chain.authenticate({"authorization": "Bearer eyJ"})).user_id == "caller"
        with pytest.raises(UnauthenticatedError) as unknown:
            await chain.authenticate({"authorization": f"Bearer cm_{'a' * 16}_{'A' * 43}"})
        assert unknown.value.reason == "API_KEY_INVALID"
        with pytest.raises(UnauthenticatedError) as missing:
            await chain.authenticate({"authorization": "Basic x"})
        assert missing.value.reason == "CREDENTIAL_MISSING"
        assert asked == ["Bearer eyJ", "Basic x"]


class TestAuditing:
    async def test_rows_of_one_caller_are_bounded_and_come_back_with_time(self) -> None:
        state, now = Members(), [0.0]
        denials = AuditDenials(stores_of(state).audit, clock=lambda: now[0])
        for _ in range(100):
            await denials.denied(caller(), "/a/b", "ROLE_TOO_LOW")
        assert len(state.rows) == 60
        now[0] += 2
        await denials.denied(caller(), "/a/b", "ROLE_TOO_LOW")
        assert len(state.rows) == 61

    async def test_unknown_caller_belongs_to_no_tenant_and_leaves_no_row(self) -> None:
        state = Members()
        await AuditDenials(stores_of(state).audit).denied(None, "/a/b", "API_KEY_INVALID")
        assert not state.rows


class TestBootstrap:
    async def test_empty_mesh_gets_one_owner_with_a_key_of_the_widest_scope(self) -> None:
        state = Members()
        secret = await bootstrap_first_admin(stores_of(state), secrets.token_bytes)
        assert secret is not None
        keys = ApiKeyAuthenticator(MemoryKeys(state), AuthenticationSettings())
        identity = await keys.authenticate({"authorization": f"Bearer {secret}"})
        assert identity == Identity("default", "admin", Role.OWNER, Scope.PLATFORM, key_id=secret.split("_")[1])
        assert secret not in repr(state)
        assert [row[1] for row in state.rows] == ["key.create"]

    async def test_second_bootstrap_does_nothing(self) -> None:
        state = Members()
        await bootstrap_first_admin(stores_of(state), secrets.token_bytes)
        assert await bootstrap_first_admin(stores_of(state), secrets.token_bytes) is None
        assert len(state.keys) == 1

    async def test_mesh_with_another_tenant_is_left_alone(self) -> None:
        state = Members()
        await stores_of(state).tenants.create_tenant("acme", "Acme", "owner")
        assert await bootstrap_first_admin(stores_of(state), secrets.token_bytes) is None

    async def test_bootstrap_that_broke_off_before_its_key_is_finished_by_the_next(self) -> None:
        state = Members()
        await stores_of(state).tenants.create_tenant("default", "Default", "admin")
        assert await bootstrap_first_admin(stores_of(state), secrets.token_bytes) is not None
        assert await bootstrap_first_admin(stores_of(state), secrets.token_bytes) is None

    async def test_revoked_first_key_is_not_made_again(self) -> None:
        state = Members()
        secret = await bootstrap_first_admin(stores_of(state), secrets.token_bytes)
        assert secret is not None
        await stores_of(state).keys.revoke_key("default", "admin", secret.split("_")[1])
        assert await bootstrap_first_admin(stores_of(state), secrets.token_bytes) is None

    async def test_keys_of_ten_thousand_bootstraps_share_nothing(self) -> None:
        made = set()
        for _ in range(10_000):
            from corpusmesh_gateway.handlers import new_key

            key = new_key(secrets.token_bytes)
            assert key.key_id not in key.secret
            made.add((key.key_id, key.secret))
        assert len({key_id for key_id, _ in made}) == len({secret for _, secret in made}) == 10_000


class TestErrors:
    @pytest.mark.parametrize("code", list(grpc.StatusCode))
    def test_fault_of_the_transport_shows_no_inner_address(self, code: grpc.StatusCode) -> None:
        from corpusmesh_runtime.status import to_status

        inner = grpc.aio.AioRpcError(
            code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="ipv4:10.0.0.7:8080 refused"
        )
        status = to_status(transport_error(inner, "ingest"))
        assert "10.0.0.7" not in str(status)

    def test_too_large_is_never_to_be_tried_again(self) -> None:
        error = TooLargeError("UPLOAD_TOO_LARGE", "too large", max_bytes=7)
        assert error.retry_delay_seconds is None
        assert isinstance(error, OverloadedError)


def test_settings_are_frozen_and_know_no_unknown_key() -> None:
    with pytest.raises(ValueError, match="frozen"):
        GatewaySettings().http.listen_port = 7  # type: ignore[misc]
    with pytest.raises(ValueError, match="extra"):
        GatewaySettings.model_validate({"http": {"port": 7}})
