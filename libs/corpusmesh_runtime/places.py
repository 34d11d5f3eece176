"""Places of records in originals, as the contract writes them."""

from corpusmesh.type.v1 import place_pb2
from corpusmesh_core.records import Record


def place_to_wire(record: Record, document: str) -> place_pb2.Place:
    """Write where a record stands.

    Args:
        record: The record.
        document: Resource name of its document, "" for a record of a build.

    Returns:
        The place.
    """
    return place_pb2.Place(
        version=f"{document}/versions/{record.version}" if document else "",
        display_name=record.display_name,
        page=record.page,
        boxes=[
            place_pb2.Box(page=box.page, left=box.left, top=box.top, right=box.right, bottom=box.bottom)
            for box in record.boxes
        ],
        heading_path=record.heading_path,
    )
