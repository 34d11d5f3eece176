"""Answers a question whose answer stands two relations away from what it names, by facts of one's own.

Who taught Euler, who was his son, and what did that son do? No passage says all of it: one says who taught Euler and
who was whose son, and the one that answers names neither Euler nor a teacher. The facts lead there.

corpusmesh up --detach
CORPUSMESH_ENDPOINT=127.0.0.1:23276 CORPUSMESH_API_KEY=$(cat .corpusmesh/admin.key) python examples/graph.py
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

from corpusmesh.graph.v1.graph_input_service_pb2 import Triple
from corpusmesh.retrieve.v1.retrieval_service_pb2 import GraphPlan, RetrievalPlan, SearchHit
from corpusmesh_client import CorpusMeshClient, UploadItem
from corpusmesh_client.graph_inputs import triples_name
from corpusmesh_client.graphs import graph_name
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.graphs.drawing import DrawnEntity, DrawnRelation, draw_neighbourhood

QUESTION = "What contribution did the son of Euler's teacher make?"
SETTINGS = {"graph": {"methods": ["triples"], "reports": "off"}}


@dataclass(frozen=True, slots=True)
class Article:
    """A document and the facts that somebody has read out of it.

    Attributes:
        name: Its file name.
        text: Its text.
        facts: Subject, predicate and object of each.
    """

    name: str
    text: str
    facts: tuple[tuple[str, str, str], ...]


ARTICLES = (
    Article(
        "jakob.md",
        "# Jakob Bernoulli\n\nJakob Bernoulli held the chair of mathematics at Basel. Numbers that appear in sums of"
        " powers carry his name. He taught his younger brother Johann.",
        (
            ("Jakob Bernoulli", "was the older brother of", "Johann Bernoulli"),
            ("Jakob Bernoulli", "gave his name to", "Bernoulli numbers"),
        ),
    ),
    Article(
        "johann.md",
        "# Johann Bernoulli\n\nJohann Bernoulli followed his brother on the chair. On Saturdays he gave lessons to the"
        " young Leonhard Euler. Daniel Bernoulli was his son, with whom he fell out over a prize.",
        (
            ("Johann Bernoulli", "was the teacher of", "Leonhard Euler"),
            ("Johann Bernoulli", "was the father of", "Daniel Bernoulli"),
        ),
    ),
    Article(
        "daniel.md",
        "# Daniel Bernoulli\n\nDaniel Bernoulli worked in Saint Petersburg. His book Hydrodynamica explains that a"
        " liquid which flows faster presses less on the walls of its pipe, a law that bears his name and still lifts"
        " aeroplanes.",
        (
            ("Daniel Bernoulli", "wrote", "Hydrodynamica"),
            ("Daniel Bernoulli", "discovered the law on", "pressure of flowing liquids"),
        ),
    ),
    Article(
        "euler.md",
        "# Leonhard Euler\n\nLeonhard Euler was born in Basel. He proved that no walk crosses the seven bridges of"
        " Koenigsberg once each, and wrote e for the base of natural logarithms.",
        (
            ("Leonhard Euler", "solved the problem of", "seven bridges of Koenigsberg"),
            ("Leonhard Euler", "introduced", "the letter e"),
        ),
    ),
    Article(
        "lagrange.md",
        "# Joseph-Louis Lagrange\n\nJoseph-Louis Lagrange wrote letters to Euler from Turin. His main contribution is a"
        " mechanics without a single figure. He had no son, and his teacher was a priest.",
        (("Joseph-Louis Lagrange", "wrote letters to", "Leonhard Euler"),),
    ),
    Article(
        "gauss.md",
        "# Carl Friedrich Gauss\n\nThe teacher of Carl Friedrich Gauss asked the class for the sum of the first hundred"
        " numbers. The boy made a contribution at once: he paired them. His son emigrated to Missouri.",
        (("Carl Friedrich Gauss", "paired", "the first hundred numbers"),),
    ),
)


async def make_graph(client: CorpusMeshClient) -> str:
    """Make a knowledge base of the articles, with a graph of their facts.

    Args:
        client: The client.

    Returns:
        `knowledgeBases/*`.
    """
    wanted = settings_from_plain(SETTINGS)
    wanted.display_name = "Mathematicians of Basel"
    base = (await client.knowledge_bases.create(wanted)).name
    items = [UploadItem(display_name=article.name, content=article.text.encode()) for article in ARTICLES]
    await client.runs.wait((await client.upload(base, items)).run)
    facts = {article.name: article.facts for article in ARTICLES}
    run = ""
    async for document in client.documents.list(base):
        triples = [Triple(subject=one, predicate=how, object=other) for one, how, other in facts[document.display_name]]
        run = (await client.graphs.put_triples(triples_name(document.name), triples)).run
    # The build that the first facts have begun may not have read the last ones: another one follows it.
    await client.runs.wait(run)
    await client.runs.wait((await client.graphs.build(graph_name(base))).run)
    return base


async def search(client: CorpusMeshClient, base: str, mode: GraphPlan.Mode.ValueType) -> Sequence[SearchHit]:
    """Search the articles.

    Args:
        client: The client.
        base: `knowledgeBases/*`.
        mode: How the graph takes part.

    Returns:
        The best three.
    """
    plan = RetrievalPlan(graph=GraphPlan(mode=mode, hops=2))
    return (await client.search([base], QUESTION, plan=plan, page_size=3)).hits


async def draw(client: CorpusMeshClient, base: str, entity: str) -> list[str]:
    """Draw what is around an entity.

    Args:
        client: The client.
        base: `knowledgeBases/*`.
        entity: The entity, as it is written.

    Returns:
        Lines.
    """
    near = await client.graphs.neighbourhood(graph_name(base), entity, hops=2)
    entities = [DrawnEntity(one.entity.name, one.entity.title, one.entity.type, one.hops) for one in near.neighbours]
    relations = [DrawnRelation(one.source, one.target, one.predicate, one.weight) for one in near.relations]
    return [str(line) for line in draw_neighbourhood(entities, relations)]


async def main() -> None:
    """Make the graph, draw it around Euler, and ask with and without it."""
    async with CorpusMeshClient(os.environ["CORPUSMESH_ENDPOINT"], api_key=os.environ["CORPUSMESH_API_KEY"]) as client:
        base = await make_graph(client)
        print("\n".join(await draw(client, base, "Leonhard Euler")))
        for name, mode in (("without the graph", GraphPlan.MODE_OFF), ("by adjacency", GraphPlan.MODE_ADJACENCY)):
            print(f"\n{QUESTION} {name}:")
            for hit in await search(client, base, mode):
                print(f"  {hit.kind}: {' '.join(hit.text.split())[:100]}")


if __name__ == "__main__":
    asyncio.run(main())
