"""Addresses, the service config and resource names."""

import json

import pytest

from corpusmesh_client.channel import ConnectionSettings, idempotent_methods, service_config, split_address
from corpusmesh_client.names import document_of, identifier_of, knowledge_base_of, resource_name
from corpusmesh_core.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:80", ("127.0.0.1:80", None)),
        ("grpc://host:1", ("host:1", False)),
        ("http://host:1/", ("host:1", False)),
        ("grpcs://host:1", ("host:1", True)),
        ("HTTPS://host:1", ("host:1", True)),
        ("[::1]:80", ("[::1]:80", None)),
        ("dns:///mesh:80", ("dns:///mesh:80", None)),
    ],
)
def test_split_address_reads_target_and_tls(address: str, expected: tuple[str, bool | None]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "  ", "https://", "http://host:1/path", "http://user@host:1"])
def test_split_address_refuses_what_is_none(address: str) -> None:
    with pytest.raises(InvalidArgumentError):
        split_address(address)


def test_service_config_retries_idempotent_methods_alone() -> None:
    config = json.loads(service_config(4))["methodConfig"][0]
    named = {f"{entry['service']}/{entry['method']}" for entry in config["name"]}
    assert named == idempotent_methods()
    assert "corpusmesh.retrieve.v1.RetrievalService/SearchChunks" in named
    assert "corpusmesh.gateway.v1.AdminService/CreateUser" not in named
    assert "corpusmesh.ingest.v1.DocumentService/UploadDocuments" not in named
    assert config["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]


def test_one_attempt_means_no_retry() -> None:
    assert json.loads(service_config(1)) == {"methodConfig": []}


def test_settings_do_not_show_the_key() -> None:
    assert "cm_secret" not in repr(ConnectionSettings(address="h:1", api_key="cm_secret"))


def test_names_are_made_and_taken_apart() -> None:
    assert resource_name("users", "ann") == "users/ann" == resource_name("users", "users/ann")
    version = "knowledgeBases/k/documents/d/versions/2"
    assert (identifier_of(version), document_of(version), knowledge_base_of(version)) == (
        "2",
        "knowledgeBases/k/documents/d",
        "knowledgeBases/k",
    )


@pytest.mark.parametrize("text", ["", "Ann", "a b", "a/b", "users/", "x" * 64])
def test_resource_name_refuses_what_is_no_identifier(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        resource_name("users", text)
