"""The command line against a real gRPC server: what it prints, and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from corpusmesh_app.cli.app import build_app
from corpusmesh_core.errors import InternalError, OverloadedError, PermissionDeniedError
from tests.support.canned_gateway import KEY, CannedGateway, run_gateway


class Shell:
    """Runs commands against one server."""

    def __init__(self, gateway: CannedGateway) -> None:
        self.gateway = gateway
        self.environment = {"CORPUSMESH_ENDPOINT": gateway.address, "CORPUSMESH_API_KEY": KEY}

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(build_app(), list(arguments), env=self.environment, catch_exceptions=False)

    def json(self, *arguments: str, status: int = 0) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == status, result.output
        return json.loads(result.stdout)


@pytest.fixture
def shell() -> Iterator[Shell]:
    with run_gateway() as gateway:
        yield Shell(gateway)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("alpha words of the first")
    (folder / "inner" / "a.txt").write_text("beta words of the second")
    (folder / ".hidden").write_text("not this one")
    return folder


def test_kb_create_list_and_delete(shell: Shell) -> None:
    made = shell.json("kb", "create", "Handbook", "--team")["knowledge_base"]
    assert (made["id"], made["permission"], made["owner"]) == ("handbook", "team", "users/admin")
    assert [entry["id"] for entry in shell.json("kb", "list")["knowledge_bases"]] == ["handbook"]
    assert shell.json("kb", "delete", "Handbook") == {
        "deleted": "knowledgeBases/handbook",
        "run": "knowledgeBases/handbook/runs/purge",
    }
    assert "No knowledge base yet" in shell.run("kb", "list").stdout


def test_kb_takes_its_settings_from_a_file(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "chunking: {settings: {max_tokens: 200}}\n"
        "parsing: {recognition: never, keep_pictures: true}\n"
        "enrichment: {keywords: {method: lite, count: 7}, toc: {method: off}}\n"
        "metadata_schema: {fields: [{name: author, type: text, source: parser, key: author}]}\n"
    )
    made = shell.json("kb", "create", "a", "--settings", str(path), "--template", "book")["knowledge_base"]
    assert made["settings"] == {
        "chunking": {"template": "book", "settings": {"max_tokens": 200}},
        "parsing": {"recognition": "never", "keep_pictures": True},
        "enrichment": {"keywords": {"method": "lite", "count": 7}, "toc": {"method": "off"}},
        "metadata_schema": {"fields": [{"name": "author", "type": "text", "source": "parser", "key": "author"}]},
    }
    path.write_text('{"parsing": {"recognition": "always"}}')
    changed = shell.json("kb", "update", "a", "--settings", str(path))["knowledge_base"]
    assert changed["settings"] == {**made["settings"], "parsing": {"recognition": "always"}}


@pytest.mark.parametrize(
    ("text", "reason", "field"),
    [
        ("summary: {}", "SETTING_UNKNOWN", "summary"),
        ("enrichment: {keyword: {}}", "SETTING_UNKNOWN", "enrichment.keyword"),
        ("enrichment: {keywords: {method: always}}", "SETTING_UNKNOWN", "enrichment.keywords.method"),
        ("enrichment: {keywords: {count: many}}", "SETTING_INVALID", "enrichment.keywords.count"),
        ("parsing: {render_pages: 1}", "SETTING_INVALID", "parsing.render_pages"),
        ("parsing: [1]", "SETTING_INVALID", "parsing"),
        ("chunking: {settings: {delimiters: !!binary aGVsbG8=}}", "SETTING_INVALID", "chunking.settings"),
        ("[1]", "SETTINGS_UNREADABLE", None),
        ("{", "SETTINGS_UNREADABLE", None),
    ],
)
def test_kb_names_the_setting_at_fault(shell: Shell, tmp_path: Path, text: str, reason: str, field: str | None) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    error = shell.json("kb", "create", "a", "--settings", str(path), status=2)["error"]
    assert (error["reason"], error.get("field")) == (reason, field), error
    assert not shell.gateway.mesh.knowledge_bases


def test_kb_is_private_unless_said(shell: Shell) -> None:
    assert shell.json("kb", "create", "mine")["knowledge_base"]["permission"] == "private"
    assert shell.json("kb", "update", "mine", "--team")["knowledge_base"]["permission"] == "team"


def test_delete_asks_a_person_first(shell: Shell) -> None:
    shell.json("kb", "create", "a")
    assert shell.run("kb", "delete", "a").exit_code == 1  # nobody answers
    assert shell.run("kb", "delete", "a", "--yes").exit_code == 0


def test_ingest_takes_a_folder_with_equal_names_apart(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    report = shell.json("ingest", str(documents), "--kb", "a", "--wait")
    assert [(entry["display_name"], entry["state"]) for entry in report["documents"]] == [
        ("a.txt", "done"),
        ("inner/a.txt", "done"),
    ]
    assert report["runs"][0]["state"] == "succeeded"
    again = shell.json("ingest", str(documents), "--kb", "a", "--wait")
    assert again["unchanged_count"] == 2


def test_ingest_goes_on_past_failed_documents_and_ends_as_partial(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    (documents / "b.txt").write_text("poison words")
    (documents / "empty.txt").write_text("")
    report = shell.json("ingest", str(documents), str(documents / "gone"), "--kb", "a", "--wait", status=6)
    states = {entry["display_name"]: entry["state"] for entry in report["documents"]}
    assert states == {
        "a.txt": "done",
        "inner/a.txt": "done",
        "b.txt": "failed",
        "empty.txt": "failed",
        str(documents / "gone"): "failed",
    }
    assert report["failed_count"] == 3
    reasons = {entry["display_name"]: (entry["error"] or {}).get("reason") for entry in report["documents"]}
    assert reasons["b.txt"] == "DOCUMENT_CORRUPT"
    assert reasons["empty.txt"] == "DOCUMENT_EMPTY"


def test_ingest_of_nothing_but_failures_ends_as_failure(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    (documents / "a.txt").write_text("poison")
    shell.json("ingest", str(documents / "a.txt"), "--kb", "a", "--wait", status=1)


def test_ingest_without_wait_names_the_run_to_follow(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    report = shell.json("ingest", str(documents), "--kb", "a")
    assert not report["waited"]
    assert report["documents"][0]["state"] == "accepted"
    name = report["runs"][0]["name"]
    assert name in shell.run("ingest", str(documents), "--kb", "a").stdout.replace("run-2", "run-1")
    assert shell.json("runs", "watch", name)["run"]["state"] == "succeeded"


def test_ingest_cuts_many_documents_into_streams(shell: Shell, tmp_path: Path) -> None:
    for number in range(230):
        (tmp_path / f"{number:03}.txt").write_text(f"text {number}")
    shell.json("kb", "create", "a")
    report = shell.json("ingest", str(tmp_path), "--kb", "a", "--wait")
    assert shell.gateway.mesh.upload_streams == [100, 100, 30]
    assert len(report["runs"]) == 3
    assert [entry["display_name"] for entry in report["documents"]][::100] == ["000.txt", "100.txt", "200.txt"]


def test_ingest_of_a_missing_path_says_so_and_ends_as_not_found(shell: Shell) -> None:
    shell.json("kb", "create", "a")
    error = shell.json("ingest", "/nowhere/at/all", "--kb", "a", status=3)["error"]
    assert error["reason"] == "FILE_NOT_FOUND"


@pytest.mark.parametrize("url", ["http://127.0.0.1:80/x", "ftp://example.org/x", "http://[::1]/", "file:///etc/passwd"])
def test_ingest_refuses_urls_that_lead_inside(shell: Shell, url: str) -> None:
    shell.json("kb", "create", "a")
    result = shell.run("ingest", url, "--kb", "a", "--json")
    assert json.loads(result.stdout)["error"]["reason"] in {"URL_ADDRESS_FORBIDDEN", "URL_INVALID"}
    assert result.exit_code in (2, 4)


def test_search_gives_every_field_of_a_hit(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a", "--wait")
    found = shell.json("search", "alpha", "--kb", "a", "--top-k", "3", "--explain")
    hit = found["hits"][0]
    assert set(hit) == {
        "record_id", "kind", "document", "version", "display_name", "title", "page", "boxes", "heading_path", "text",
        "position", "token_count", "scores", "picture", "merged_record_ids", "via_record_ids", "url",
        "layer", "leaves",
    }  # fmt: skip
    assert hit["boxes"] == [{"page": 3, "left": 1.0, "top": 2.0, "right": 3.0, "bottom": 4.0}]
    assert hit["heading_path"] == ["Part", "Chapter"]
    assert found["explanation"]["query_terms"] == ["alpha"]
    shown = shell.run("search", "alpha", "--kb", "a", "--explain").stdout
    assert "page 3" in shown
    assert "Part > Chapter" in shown


def test_search_reads_on_until_it_has_enough(shell: Shell, tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.txt").write_text(f"same {number}")
    shell.json("kb", "create", "a")
    shell.json("ingest", str(tmp_path), "--kb", "a", "--wait")
    assert len(shell.json("search", "same", "--kb", "a", "--top-k", "11")["hits"]) == 11


def test_search_shows_hostile_text_without_its_control_characters(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("alpha \x1b]0;owned\x07 [red]not markup[/red]")
    shell.json("kb", "create", "a")
    shell.json("ingest", str(tmp_path), "--kb", "a", "--wait")
    shown = shell.run("search", "alpha", "--kb", "a", "--full").stdout
    assert "\x1b" not in shown
    assert "[red]not markup[/red]" in shown


def test_search_refuses_a_plan_that_is_none(shell: Shell) -> None:
    shell.json("kb", "create", "a")
    assert shell.json("search", "x", "--kb", "a", "--plan", "best", status=2)["error"]["reason"] == "PLAN_INVALID"
    assert shell.json("search", "x", "--kb", "a", "--plan", '{"mode": "SEARCH_MODE_VECTOR"}')["hits"] == []
    assert shell.json("search", "x", "--kb", "a", "--tree", "up", status=2)["error"]["reason"] == "PLAN_INVALID"
    assert shell.json("search", "x", "--kb", "a", "--tree", "hierarchical")["hits"] == []


def test_ask_streams_the_text_and_then_names_document_page_and_passage(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a", "--wait")
    shown = shell.run("ask", "why", "--kb", "a").stdout
    assert shown.startswith("The answer is 42 [ID:7].")
    assert "[ID:7] a.txt · page 3 · Part > Chapter" in shown
    assert "alpha words of the first" in shown
    answer = shell.json("ask", "why", "--kb", "a")
    assert (answer["text"], answer["method"]) == ("The answer is 42 [ID:7].", "extractive")
    assert answer["citations"][0]["marker"] == 7


def test_ask_that_breaks_off_ends_as_unavailable(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a", "--wait")
    assert shell.json("ask", "break off", "--kb", "a", status=5)["error"]["reason"] == "DRAINING"


def test_documents_are_found_by_file_name_and_shown_with_versions(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a", "--wait")
    listed = shell.json("documents", "list", "--kb", "a")
    assert listed["total_size"] == 2
    shown = shell.json("documents", "show", "inner/a.txt", "--kb", "a")
    assert shown["document"]["display_name"] == "inner/a.txt"
    assert [entry["version"] for entry in shown["versions"]] == ["3", "2", "1"]
    assert shell.json("documents", "show", "none.txt", "--kb", "a", status=3)["error"]["reason"] == "DOCUMENT_NOT_FOUND"
    assert shell.json("documents", "show", "a.txt", status=2)["error"]["reason"] == "NAME_SHORT"


def test_publish_takes_the_newest_ready_version_and_rollback_the_one_before(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a", "--wait")
    assert shell.json("documents", "publish", "a.txt", "--kb", "a")["version"].endswith("/versions/2")
    assert shell.json("documents", "rollback", "a.txt", "--kb", "a")["version"].endswith("/versions/1")
    assert shell.json("documents", "publish", "a.txt", "--kb", "a", "--version", "1")["version"].endswith("/1")


def test_open_saves_the_original_and_overwrites_only_by_force(
    shell: Shell, documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a", "--wait")
    shown = shell.json("documents", "open", "inner/a.txt", "--kb", "a")
    assert shown["path"] == "a.txt"  # never a path of the uploader's choice
    assert (tmp_path / "a.txt").read_text() == "beta words of the second"
    assert shell.json("documents", "open", "a.txt", "--kb", "a", status=1)["error"]["reason"] == "FILE_EXISTS"
    shell.json("documents", "open", "a.txt", "--kb", "a", "--force")
    assert (tmp_path / "a.txt").read_text() == "alpha words of the first"


def test_access_replaces_and_opens(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a", "--wait")
    changed = shell.json("documents", "access", "a.txt", "--kb", "a", "--allow-user", "ann", "--deny-group", "temps")
    assert changed["access"]["allowed_users"] == ["users/ann"]
    assert changed["access"]["denied_groups"] == ["temps"]
    opened = shell.json("documents", "access", "a.txt", "--kb", "a", "--open")
    assert opened["access"]["allowed_users"] == []
    assert shell.json("documents", "access", "a.txt", "--kb", "a")["changed"] is False


def test_verify_purge_fails_while_something_is_left(shell: Shell) -> None:
    shell.json("kb", "create", "a")
    assert shell.json("documents", "verify-purge", "gone", "--kb", "a")["purged"]
    shell.gateway.mesh.purged = False
    assert shell.json("documents", "verify-purge", "gone", "--kb", "a", status=1)["record_count"] == 3


def test_rollback_of_a_knowledge_base_takes_the_state_before(shell: Shell) -> None:
    shell.json("kb", "create", "a")
    assert shell.json("kb", "rollback", "a")["returned_to"] == "knowledgeBases/a/snapshots/2"
    assert len(shell.json("kb", "snapshots", "a")["snapshots"]) == 3


def test_status_names_the_caller_and_work_under_way(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    shell.json("ingest", str(documents), "--kb", "a")
    state = shell.json("status")
    assert state["caller"]["user"] == "users/admin"
    assert state["runs"][0]["state"] == "pending"
    assert "users/admin" in shell.run("status", "--kb", "a").stdout


def test_runs_are_listed_shown_cancelled_and_retried(shell: Shell, documents: Path) -> None:
    shell.json("kb", "create", "a")
    name = shell.json("ingest", str(documents), "--kb", "a")["runs"][0]["name"]
    assert shell.json("runs", "list", "--kb", "a")["runs"][0]["name"] == name
    assert shell.json("runs", "show", name.rsplit("/", 1)[1], "--kb", "a")["run"]["name"] == name
    assert shell.json("runs", "cancel", name)["run"]["state"] == "cancelled"
    assert shell.json("runs", "retry", name)["retried_count"] == 2


def test_admin_makes_tenants_users_and_keys(shell: Shell, tmp_path: Path) -> None:
    made = shell.json("admin", "tenants", "create", "acme", "--owner", "boss")
    assert (made["owner"]["name"], made["secret"]) == ("users/boss", "cm_secret")
    assert shell.json("admin", "tenants", "list")["tenants"][0]["id"] == "acme"
    for name in ("ann", "ben", "cay"):
        shell.json("admin", "users", "create", name, "--role", "editor", "--group", "legal")
    assert [user["id"] for user in shell.json("admin", "users", "list")["users"]] == ["ann", "ben", "cay"]
    changed = shell.json("admin", "users", "update", "ben", "--disable")["user"]
    assert (changed["disabled"], changed["role"], changed["groups"]) == (True, "editor", ["legal"])
    secret_file = tmp_path / "key"
    arguments = ("admin", "keys", "create", "ann", "--scope", "write", "--expires-in", "90d")
    key = shell.json(*arguments, "--secret-file", str(secret_file))
    assert (key["secret"], key["api_key"]["scope"]) == (None, "write")
    assert key["api_key"]["expire_time"] is not None
    assert secret_file.read_text().strip() == "cm_secret"
    assert secret_file.stat().st_mode & 0o777 == 0o600
    assert shell.json("admin", "keys", "list", "ann")["api_keys"][0]["id"] == "k1"
    assert shell.json("admin", "keys", "revoke", "users/ann/apiKeys/k1")["api_key"]["id"] == "k1"
    assert shell.json("admin", "keys", "create", "ann", "--expires-in", "soon", status=2)


def test_exit_statuses_follow_the_kind_of_failure(shell: Shell) -> None:
    cases = (
        ("list", PermissionDeniedError("ROLE_TOO_LOW", "you may not"), 4),
        ("list", InternalError("BROKEN", "secret text"), 1),
    )
    for command, error, status in cases:
        shell.gateway.mesh.failures["ListKnowledgeBases"] = [error]
        body = shell.json("kb", command, status=status)
        assert body["error"]["message"]
        assert "secret text" not in str(body)
    shell.gateway.mesh.failures["ListKnowledgeBases"] = [OverloadedError("FULL", "full", retry_delay_seconds=0.01)] * 9
    assert shell.json("kb", "list", status=5)["error"]["kind"] == "Overloaded"
    assert shell.run("kb", "list", "--no-such-option").exit_code == 2
    shell.environment["CORPUSMESH_API_KEY"] = "cm_wrong"
    result = shell.run("kb", "list")
    assert result.exit_code == 4
    assert "--api-key-file" in result.stderr
    assert "Traceback" not in result.output


def write_set(folder: Path, lines: int) -> None:
    corpus = [{"id": f"w{n}", "title": f"T{n}", "text": f"word{n} shared"} for n in range(lines)]
    queries = [{"id": "q1", "question": "word1", "gold_ids": ["w1"]}]
    queries.append({"id": "q2", "question": "word2 vectoronly", "gold_ids": ["w2", "w3"]})
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)), encoding="utf-8")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")


def test_eval_ingests_once_and_measures(shell: Shell, tmp_path: Path) -> None:
    write_set(tmp_path, 5)
    first = shell.json("eval", str(tmp_path), "--kb", "set")
    assert (first["ingested_count"], first["document_count"]) == (5, 5)
    measured = first["measurements"][0]
    assert measured["recall_at_2"] == pytest.approx(0.75)  # (1/1 + 1/2) / 2
    assert measured["timed_query_count"] == 2
    assert measured["milliseconds_per_query"] > 0
    again = shell.json("eval", str(tmp_path), "--kb", "set", "--limit", "1")
    assert again["ingested_count"] == 0
    assert again["measurements"][0]["ndcg_at_10"] == 1.0
    write_set(tmp_path, 6)
    assert shell.json("eval", str(tmp_path), "--kb", "set")["ingested_count"] == 1


def test_eval_compares_the_legs(shell: Shell, tmp_path: Path) -> None:
    write_set(tmp_path, 5)
    found = shell.json("eval", str(tmp_path), "--kb", "set", "--compare-legs")
    by_plan = {entry["plan"]: entry["recall_at_10"] for entry in found["measurements"]}
    assert by_plan == {"hybrid": 0.75, "lexical": 0.5, "vector": 0.75}
    assert all(found["hybrid_at_least_better_leg"].values())
    shown = shell.run("eval", str(tmp_path), "--kb", "set", "--compare-legs").stdout
    assert "at least as good as the better leg" in shown
