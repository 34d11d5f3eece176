"""One download: streamed, bounded in time and bytes, hashed on the way."""

import hashlib
import os
from pathlib import Path

import requests
from maven_artifact import Artifact, Downloader

_REQUEST_TIMEOUT_SECONDS = 60.0
_PIECE_BYTES = 1 << 16
_SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def download_artefact(artifact: Artifact, path: Path, *, max_bytes: int) -> str:
    """Stream an artefact to a file.

    `Downloader.download` has no timeout and prints; its resolver and default repository are what is used of it.

    Args:
        artifact: What to fetch.
        path: Where to.
        max_bytes: Longest file taken.

    Returns:
        The file's SHA-256 in hexadecimal.

    Raises:
        requests.RequestException: If it cannot be fetched.
        OSError: If it is longer than `max_bytes`, or cannot be written.
    """
    uri = Downloader().resolver.uri_for_artifact(artifact)
    digest = hashlib.sha256()
    size = 0
    with requests.get(uri, timeout=_REQUEST_TIMEOUT_SECONDS, stream=True, verify=_certificates()) as response:
        response.raise_for_status()
        with path.open("wb") as file:
            for piece in response.iter_content(chunk_size=_PIECE_BYTES):
                size += len(piece)
                if size > max_bytes:
                    raise OSError(f"more than {max_bytes} bytes")
                digest.update(piece)
                file.write(piece)
    return digest.hexdigest()


def _certificates() -> str | bool:
    """Trust what the machine trusts: a company's own authority is in its bundle, not in the library's."""
    named = (os.environ.get(variable, "") for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"))
    for bundle in (*named, *_SYSTEM_BUNDLES):
        if bundle and Path(bundle).is_file():
            return bundle
    return True
