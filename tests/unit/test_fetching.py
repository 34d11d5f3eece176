"""Where `corpusmesh ingest URL` may lead."""

import ipaddress
from collections.abc import Mapping, Sequence

import pytest

from corpusmesh_adapters.connectors.web.addresses import check_url, is_public
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError

PUBLIC = "93.184.215.14"
NAMES: Mapping[str, Sequence[str]] = {
    "example.org": [PUBLIC],
    "six.example.org": ["2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    "loop.example.org": ["127.0.0.1"],
    "mixed.example.org": [PUBLIC, "10.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "intranet": ["192.168.1.10"],
    "localhost": ["127.0.0.1", "::1"],
    "scoped.example.org": ["fe80::1%eth0"],
    "xn--bcher-kva.example": [PUBLIC],
    # What getaddrinfo makes of the spellings that its C library accepts.
    "2130706433": ["127.0.0.1"],
    "0x7f.1": ["127.0.0.1"],
    "127.1": ["127.0.0.1"],
    "0": ["0.0.0.0"],
}


async def resolve(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        return list(NAMES.get(host, ()))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.org/", PUBLIC),
        ("https://example.org/a/b.pdf?x=1#part", PUBLIC),
        ("HTTPS://EXAMPLE.ORG", PUBLIC),
        ("https://example.org:8443/x", PUBLIC),
        ("https://bücher.example/x", PUBLIC),
        ("http://8.8.8.8/", "8.8.8.8"),
        ("http://[2606:4700:4700::1111]/", "2606:4700:4700::1111"),
        ("https://six.example.org/", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"),
    ],
)
async def test_public_urls_lead_to_the_checked_address(url: str, expected: str) -> None:
    assert (await check_url(url, resolve))[1] == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1:9200/_search",
        "http://127.8.9.10/",
        "http://localhost/",
        "http://LOCALHOST:8080/",
        "http://loop.example.org/",
        "http://mixed.example.org/",
        "http://intranet/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://10.1.2.3/",
        "http://172.16.0.1/",
        "http://172.31.255.255/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://100.100.100.200/latest/meta-data/",
        "http://169.254.169.254/latest/meta-data/",
        "http://169.254.170.2/v2/credentials",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://192.0.0.192/opc/v2/",
        "http://168.63.129.16/machine",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://203.0.113.7/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]/",
        "http://[::]/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://[fd00:ec2::254]/latest/",
        "http://[ff02::1]/",
        "http://[2001:db8::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::127.0.0.1]/",
        "http://[::10.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
        "http://scoped.example.org/",
    ],
)
async def test_urls_that_lead_inside_are_refused(url: str) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        await check_url(url, resolve)
    assert caught.value.reason == "URL_ADDRESS_FORBIDDEN"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "//example.org/x",
        "ftp://example.org/x",
        "file:///etc/passwd",
        "gopher://example.org/",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "https://user@example.org/",
        "https://user:secret@example.org/",
        "https://example.org:99999/",
        "https://example.org\r\nHost: inside/",
        "http://exa mple.org/",
        "http://0177.0.0.1/",
        "https://example.org/" + "x" * 5000,
    ],
)
async def test_what_is_no_plain_web_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await check_url(url, resolve)
    assert caught.value.reason == "URL_INVALID"


async def test_unknown_host_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        await check_url("https://nowhere.example.org/", resolve)


def test_a_carried_address_is_judged_by_what_it_carries() -> None:
    assert is_public(ipaddress.ip_address("64:ff9b::808:808"))
    assert not is_public(ipaddress.ip_address("64:ff9b::a00:1"))
