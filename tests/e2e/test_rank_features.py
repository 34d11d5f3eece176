"""What lifts a hit whatever it says: tags that fit the question, and the page rank of its knowledge base."""

from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh_client import CorpusMeshClient
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from tests.support.mesh import MeshHarness, ingest_texts

TAGS = "description\ttags\nphones by Huawei\tphone\ncases, films and earphones\taccessory\n"
PHONE = "# Mate\n\nThe Mate is a phone made by Huawei with a large screen and a stylus."
MAIL = "# Mate\n\nSomebody wrote that phones by Huawei are phones by Huawei."
CASE = "# Mate case\n\nA case, films and earphones for the phone Mate made by Huawei."


async def _made(client: CorpusMeshClient, name: str, **settings: object) -> knowledge_base_pb.KnowledgeBase:
    wanted = settings_from_plain(settings)
    wanted.display_name = name
    return await client.knowledge_bases.create(wanted)


async def test_tags_of_the_question_and_page_rank_lift_hits_and_explain_themselves(mesh: MeshHarness) -> None:
    tenant = await mesh.tenant()
    async with mesh.client(tenant.owner_key) as client:
        tag_set = await _made(client, "tag set", chunking={"template": "tag"})
        await ingest_texts(client, tag_set.name, {"tags.txt": TAGS})
        tags = {"method": "lite", "tag_sets": [tag_set.name.removeprefix("knowledgeBases/")], "threshold": 0.05}
        shop = await _made(client, "shop", enrichment={"tags": tags}, ranking={"page_rank": 80})
        mail = await _made(client, "mail")
        await ingest_texts(client, shop.name, {"phone.md": PHONE, "case.md": CASE})
        await ingest_texts(client, mail.name, {"mail.md": MAIL})
        assert (await client.knowledge_bases.get(shop.name)).rank_settings.page_rank == 80

        plan = pb.RetrievalPlan(recall=pb.RecallPlan(tags=True, tag_weight=0.2))
        found = await client.search([shop.name], "phones by Huawei", plan=plan, explain=True)
        stages = {stage.stage: stage for stage in found.explanation.stages}
        assert stages["tags"].state == pb.StageTiming.STATE_RAN
        assert "page_rank" not in stages, "there is nothing to go before"
        names = {hit.record_id: hit.place.display_name for hit in found.hits}
        features = {
            names[item.record_id]: item.rank_feature for item in found.explanation.candidates if item.record_id in names
        }
        assert features["phone.md"] > features["case.md"]
        assert features["phone.md"] > 0.05

        ranked = pb.RetrievalPlan(recall=pb.RecallPlan(tags=False, page_rank_weight=0.5))
        found = await client.search([mail.name, shop.name], "phones by Huawei", plan=ranked, explain=True)
        assert [hit.place.display_name for hit in found.hits][-1] == "mail.md"
        by_id = {item.record_id: item.rank_feature for item in found.explanation.candidates}
        assert [round(by_id[hit.record_id], 3) for hit in found.hits] == [0.4, 0.4, 0.0]
