"""Settings of the gateway."""

from pydantic import Field

from corpusmesh_runtime.config import Section, ServerSettings


class AuthenticationSettings(Section):
    """How API keys are checked."""

    key_cache_seconds: float = Field(default=0.0, ge=0, le=5)
    """How long a key that was found is trusted without another look-up. 0 looks it up on every call (see README for
    the measured cost). Above 0, another replica's revocation is noticed only after this time; this one's at once."""
    key_lookup_timeout_seconds: float = Field(default=5.0, gt=0, le=60)
    """Deadline of one look-up in the key store."""


class LimitSettings(Section):
    """What one API key may take; more is refused with RESOURCE_EXHAUSTED."""

    requests_per_second: float = Field(default=200.0, gt=0)
    """Calls a second of one key in the long run, by a token bucket."""
    request_burst: int = Field(default=400, ge=1)
    """Calls of one key at once after a rest."""
    max_streams_per_key: int = Field(default=32, ge=1)
    """Streaming calls of one key at the same time."""
    max_upload_stream_bytes: int = Field(default=2 * 1024**3, ge=1024)
    """Bytes of one upload stream over all its documents."""
    stream_idle_timeout_seconds: float = Field(default=120.0, gt=0)
    """Silence of an uploading caller after which its stream is ended."""


class HttpSettings(Section):
    """The HTTP/JSON port."""

    listen_host: str = "127.0.0.1"
    """Address to listen on."""
    listen_port: int = Field(default=0, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    max_json_body_bytes: int = Field(default=1024 * 1024, ge=1024)
    """Largest JSON body."""
    max_header_bytes: int = Field(default=32 * 1024, ge=4096)
    """Largest request line with all headers."""
    max_connections: int = Field(default=1000, ge=1)
    """Connections at the same time; one more is answered with 503."""
    header_timeout_seconds: float = Field(default=10.0, gt=0)
    """Time to send all headers."""
    body_timeout_seconds: float = Field(default=30.0, gt=0)
    """Time to send a JSON body whole; of an upload, the longest silence."""
    keep_alive_seconds: int = Field(default=15, ge=1)
    """How long an idle connection is kept."""
    default_deadline_seconds: float = Field(default=60.0, gt=0)
    """Deadline of a call that answers once, where the header `X-Timeout-Seconds` sets none."""
    stream_heartbeat_seconds: float = Field(default=15.0, gt=0)
    """Silence of an event stream after which a comment keeps proxies from closing it."""
    docs_enabled: bool = True
    """Whether /openapi.json and /docs answer."""
    openai_enabled: bool = True
    """Whether /v1/chat/completions and /v1/models answer."""
    mcp_enabled: bool = True
    """Whether /mcp answers."""
    mcp_allowed_hosts: tuple[str, ...] = ("127.0.0.1:*", "localhost:*", "[::1]:*")
    """Hosts that requests to /mcp may name, `host`, `host:port` or `host:*` for any port; set the gateway's own name
    here. Others are refused, so that a name that is bound to this address elsewhere leads nowhere."""
    mcp_allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call /mcp, such as `https://chat.example.com`; none by default."""


class GatewaySettings(Section):
    """All settings of the gateway."""

    server: ServerSettings = ServerSettings()
    """The gRPC port."""
    http: HttpSettings = HttpSettings()
    """The HTTP/JSON port."""
    authentication: AuthenticationSettings = AuthenticationSettings()
    """How API keys are checked."""
    limits: LimitSettings = LimitSettings()
    """What one API key may take."""
