"""Makes the tree of a sample document through a running mesh, and prints its summaries from the top down.

corpusmesh up --detach
CORPUSMESH_ENDPOINT=127.0.0.1:23276 CORPUSMESH_API_KEY=$(cat .corpusmesh/admin.key) python examples/tree.py [FILE]
"""

import asyncio
import os
import sys
from pathlib import Path

from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_client.trees import document_tree_name

SAMPLE = Path(__file__).parent / "documents" / "CorpusMesh User Guide.pdf"
SETTINGS = {"tree": {"scope": "file"}, "chunking": {"settings": {"max_tokens": 160}}}


async def main(name: str, content: bytes) -> None:
    """Upload a document to a new knowledge base that makes trees, and print the tree.

    Args:
        name: Its file name.
        content: Its bytes.
    """
    async with CorpusMeshClient(os.environ["CORPUSMESH_ENDPOINT"], api_key=os.environ["CORPUSMESH_API_KEY"]) as client:
        wanted = settings_from_plain(SETTINGS)
        wanted.display_name = f"Tree of {name}"
        base = await client.knowledge_bases.create(wanted)
        item = UploadItem(display_name=name, content=content)
        await client.runs.wait((await client.upload(base.name, [item])).run)
        document = await anext(aiter(client.documents.list(base.name)))
        tree = await client.trees.get(document_tree_name(document.name))
        print(f"{tree.bill.leaf_count} chunks, nodes by layer {list(tree.layer_node_counts)}")
        top = 0
        async for node in client.trees.nodes(tree.name):
            top = top or node.layer
            print(f"{'  ' * (top - node.layer)}{node.leaf_count:>3} chunks: {' '.join(node.text.split())[:100]}")


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    asyncio.run(main(chosen.name, chosen.read_bytes()))
