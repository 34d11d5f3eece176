"""Metrics of graphs."""

from typing import Final

from prometheus_client import Counter

from corpusmesh_core.graphs.values import GraphBill

GRAPH_PARTS_TOTAL: Final = Counter(
    "corpusmesh_graph_parts_total",
    "Documents and reports of graphs by where they came from: made, or taken over from the graph before.",
    ("kind", "origin"),
)


def count_parts(bill: GraphBill) -> None:
    """Count what one slice of a build has made.

    Args:
        bill: What it cost.
    """
    counts = {
        ("document", "made"): bill.document_count,
        ("document", "taken_over"): bill.reused_document_count,
        ("report", "made"): bill.report_count,
        ("report", "taken_over"): bill.reused_report_count,
    }
    for labels, count in counts.items():
        GRAPH_PARTS_TOTAL.labels(*labels).inc(count)
