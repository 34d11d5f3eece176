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
