"""Traces through gRPC metadata and message headers, by the W3C trace context."""

from collections.abc import Iterable, Mapping

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from corpusmesh_runtime.config import TelemetrySettings

TRACE_KEYS = ("traceparent", "tracestate")


def configure_tracing(settings: TelemetrySettings, *, service: str) -> None:
    """Set up the process's tracer.

    Args:
        settings: Where spans go and how many are kept.
        service: Name of the service.
    """
    sampler = ParentBased(TraceIdRatioBased(settings.sample_ratio if settings.otlp_endpoint else 0.0))
    provider = TracerProvider(resource=Resource.create({"service.name": f"corpusmesh-{service}"}), sampler=sampler)
    if settings.otlp_endpoint:
        # Imported here: the exporter costs 0.3 s of start-up, which a process without a collector need not pay.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.otlp_endpoint)))
    trace.set_tracer_provider(provider)


def tracer() -> trace.Tracer:
    """Give the tracer of the mesh."""
    return trace.get_tracer("corpusmesh")


def outgoing_headers() -> dict[str, str]:
    """Give the headers that carry the current trace to another process."""
    headers: dict[str, str] = {}
    inject(headers)
    return headers


def incoming_context(headers: Mapping[str, str] | Iterable[tuple[str, str | bytes]]) -> otel_context.Context:
    """Read the trace that a caller sent.

    Args:
        headers: gRPC metadata or message headers.

    Returns:
        The context to start spans in.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return extract({key.lower(): value for key, value in pairs if isinstance(value, str)})
