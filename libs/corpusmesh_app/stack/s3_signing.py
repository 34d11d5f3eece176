"""AWS Signature Version 4 for requests without a body.

The supervisor asks an S3 service three questions (is the bucket there, make it, is it writable). The SDK stays in the
adapters (see the import contracts), and these few lines are all of it that is needed here.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit


def sign_request(
    method: str,
    url: str,
    *,
    access_key: str,
    secret_key: str,
    region: str,
    now: datetime,
    body: bytes = b"",
) -> Mapping[str, str]:
    """Make the headers of a signed S3 request.

    Args:
        method: HTTP method.
        url: The whole URL, without a query.
        access_key: Key id.
        secret_key: Its secret.
        region: Region of the service.
        now: The time of the request, in UTC.
        body: What the request carries.

    Returns:
        The headers to send.

    References:
        AWS General Reference, "Signature Version 4 signing process".
    """
    parts = urlsplit(url)
    timestamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{timestamp[:8]}/{region}/s3/aws4_request"
    content_hash = hashlib.sha256(body).hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": content_hash, "x-amz-date": timestamp}
    names = ";".join(sorted(headers))
    canonical_headers = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join((method, quote(parts.path or "/"), "", canonical_headers, names, content_hash))
    to_sign = "\n".join(("AWS4-HMAC-SHA256", timestamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    authorization = f"AWS4-HMAC-SHA256 Credential={access_key}/{scope},SignedHeaders={names},Signature={signature}"
    return {**headers, "authorization": authorization}
