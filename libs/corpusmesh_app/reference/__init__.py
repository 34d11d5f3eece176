"""Reference pages made from the code: settings, metrics, error reasons.

`python -m corpusmesh_app.reference` writes them into `docs/reference/`; a unit test compares them with the code.
"""

from collections.abc import Mapping

from corpusmesh_app.reference.configuration import configuration_page
from corpusmesh_app.reference.errors import errors_page
from corpusmesh_app.reference.metrics import metrics_page

__all__ = ["pages"]


def pages() -> Mapping[str, str]:
    """Make every page.

    Returns:
        Text by file name below `docs/reference/`.
    """
    return {
        "configuration.md": configuration_page(),
        "errors.md": errors_page(),
        "metrics.md": metrics_page(),
    }
