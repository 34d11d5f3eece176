-- Documents in depth: what a version is made of besides its chunks, and how it may differ from its knowledge base.

SET LOCAL search_path = corpusmesh;

ALTER TABLE versions DROP CONSTRAINT versions_state_check;
ALTER TABLE versions ADD CONSTRAINT versions_state_check CHECK (state IN (
    'pending', 'parsing', 'chunking', 'enriching', 'embedding', 'indexing', 'ready', 'failed', 'cancelled', 'purged'));

ALTER TABLE versions ADD COLUMN record_count integer NOT NULL DEFAULT 0;
UPDATE versions SET record_count = chunk_count;
-- Parts of the configuration that hold for this version alone.
ALTER TABLE versions ADD COLUMN config jsonb NOT NULL DEFAULT '{}';
ALTER TABLE versions ADD COLUMN base_ordinal integer NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN sealed_password bytea NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN extracted_metadata jsonb NOT NULL DEFAULT '{}';
-- Found in the version shown, not given by people: it goes with that version.
ALTER TABLE document_metadata ADD COLUMN is_extracted boolean NOT NULL DEFAULT false;

-- An edit holds from one version on and, withdrawn, up to another; what became of it is what the newest version says.
ALTER TABLE chunk_edits DROP CONSTRAINT chunk_edits_state_check;
ALTER TABLE chunk_edits ADD CONSTRAINT chunk_edits_state_check
    CHECK (state IN ('pending', 'placed', 'unplaced', 'withdrawn'));
ALTER TABLE chunk_edits ADD COLUMN made_ordinal integer NOT NULL DEFAULT 0;
ALTER TABLE chunk_edits ADD COLUMN withdrawn_ordinal integer;
ALTER TABLE chunk_edits ADD COLUMN placement_ordinal integer NOT NULL DEFAULT 0;
CREATE INDEX chunk_edits_withdrawn ON chunk_edits (update_time) WHERE state = 'withdrawn';

-- Documents by name within their knowledge base: folders are prefixes of names.
CREATE INDEX documents_by_name ON documents (tenant_id, knowledge_base_id, display_name text_pattern_ops)
    WHERE state = 'active';
