-- Sources: places outside of the mesh that a knowledge base follows, and what is known of their items.

SET LOCAL search_path = corpusmesh;

-- What a run has done beside its documents, such as the counts of a sync.
ALTER TABLE runs ADD COLUMN result jsonb NOT NULL DEFAULT '{}';

CREATE TABLE sources (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    source_id text NOT NULL CHECK (source_id ~ '^[a-z0-9-]{1,63}$'),
    kind text NOT NULL CHECK (kind IN ('folder', 's3', 'web')),
    display_name text NOT NULL,
    -- Names of configured roots and connections, never a secret.
    place jsonb NOT NULL,
    access jsonb NOT NULL DEFAULT '{}',
    metadata jsonb NOT NULL DEFAULT '{}',
    schedule_seconds integer NOT NULL DEFAULT 0 CHECK (schedule_seconds = 0 OR schedule_seconds >= 300),
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'deleting')),
    owner_user_id text NOT NULL,
    cursor text NOT NULL DEFAULT '',
    last_run_id text NOT NULL DEFAULT '',
    last_sync_time timestamptz,
    next_sync_time timestamptz,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, source_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);
CREATE INDEX sources_due ON sources (next_sync_time) WHERE state = 'active' AND next_sync_time IS NOT NULL;

CREATE TABLE source_items (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    source_id text NOT NULL,
    -- An index entry holds 2,704 bytes.
    key text COLLATE "C" NOT NULL CHECK (octet_length(key) <= 2000),
    display_name text NOT NULL,
    document_id text NOT NULL DEFAULT '',
    etag text NOT NULL DEFAULT '',
    access_digest text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('active', 'failed', 'removed')),
    -- What the sync with this run did with it.
    change text NOT NULL DEFAULT '',
    run_id text NOT NULL DEFAULT '',
    memo text NOT NULL DEFAULT '',
    error_reason text NOT NULL DEFAULT '',
    error_message text NOT NULL DEFAULT '',
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, source_id, key),
    FOREIGN KEY (tenant_id, knowledge_base_id, source_id) REFERENCES sources ON DELETE CASCADE
);
CREATE INDEX source_items_by_run ON source_items (tenant_id, run_id, change) WHERE change <> '';

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['sources', 'source_items'] LOOP
        EXECUTE format('ALTER TABLE corpusmesh.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE corpusmesh.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON corpusmesh.%I TO corpusmesh_app '
            'USING (tenant_id = current_setting(''corpusmesh.tenant_id'', true)) '
            'WITH CHECK (tenant_id = current_setting(''corpusmesh.tenant_id'', true))', name);
        EXECUTE format('CREATE POLICY every_tenant ON corpusmesh.%I TO corpusmesh_system USING (true) WITH CHECK (true)',
            name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON corpusmesh.%I TO corpusmesh_app, corpusmesh_system',
            name);
    END LOOP;
END $$;
