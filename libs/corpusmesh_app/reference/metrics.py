"""The page of metrics, made from the registry after every service was imported."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

# The processes of a mesh import every module that defines a metric.
import corpusmesh_app.mesh  # noqa: F401
from corpusmesh_app.reference.tables import GENERATED, table

_INTRODUCTION: Final = """\
Every process answers `/metrics` on its operations port (`operations.listen_port`), beside `/livez` and `/readyz`.
`corpusmesh up` writes the port to `<data>/config.yaml`. Labels come from closed sets, never from tenants, users or
documents. A histogram is three series: `…_bucket`, `…_sum` and `…_count`.
"""

_Metric = Counter | Gauge | Histogram


def _metrics() -> Iterator[tuple[str, _Metric]]:
    """Give every metric with the module that defines it, in the order of names."""
    for name in sorted(name for name in sys.modules if name.startswith("corpusmesh_")):
        for value in vars(sys.modules[name]).values():
            if isinstance(value, _Metric):
                yield name, value


def metrics_page() -> str:
    """Make the page of metrics.

    Returns:
        Markdown; every metric with its type, labels and the question that it answers.
    """
    by_module: defaultdict[str, dict[str, tuple[str, str, str, str]]] = defaultdict(dict)
    seen: set[str] = set()
    modules = list(_metrics())
    # A module that imports a metric is not its owner: the owner's name says "metrics", or nobody else has it.
    for module, metric in sorted(modules, key=lambda item: ("metrics" not in item[0], item[0])):
        family = next(iter(metric.describe()))
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name in seen:
            continue
        seen.add(name)
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)
        by_module[module][name] = (f"`{name}`", family.type, labels, family.documentation)
    lines = [GENERATED, "", "# Metrics", "", _INTRODUCTION]
    for module in sorted(by_module):
        lines += [f"## {module}", ""]
        lines += table(
            ("Metric", "Type", "Labels", "What it tells"), (row for _, row in sorted(by_module[module].items()))
        )
    return "\n".join(lines)
