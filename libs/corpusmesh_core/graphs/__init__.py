"""Graphs of entities and relations over chunks: how they are found, resolved, put together and ranked (ADR-0014).

Where to look:

- what a graph is: `values`, `keys`, `names`, `settings`, `ledger`, `fingerprints`
- found without a language model: `extraction`; with one: `batches`, `model_messages`, `parsing` (with `tuple_fields`,
  `json_records`, `read_values`), `standing`, `grounding`, `model_answers`
- kept: `records`; `segment`, `segments`, `subgraphs`, `restoring`, all of them `columns` and `strings`
- which names are one entity: `blocking`, `name_rules`, `resolution`; what people say of it: `corrections`, `edits`
- seen by a caller: `compiling`, `compiled`, `view`, `descriptions`; walked and ranked: `walking`, `ranks`
- communities: `communities`, `grouping`, `reports`, `report_excerpt`
- told to people and other programs: `cost`, `telling`, `drawing`, `exporting`
"""
