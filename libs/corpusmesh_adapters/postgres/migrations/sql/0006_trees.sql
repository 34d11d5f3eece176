-- Trees: builds whose nodes are published each by an ordinal of its own (ADR-0012).

SET LOCAL search_path = corpusmesh;

ALTER TABLE versions DROP CONSTRAINT versions_state_check;
ALTER TABLE versions ADD CONSTRAINT versions_state_check CHECK (state IN (
    'pending', 'parsing', 'chunking', 'enriching', 'embedding', 'summarizing', 'indexing', 'ready', 'failed',
    'cancelled', 'purged'));

-- Documents for which a stage had nothing to do, by stage.
ALTER TABLE runs ADD COLUMN skipped jsonb NOT NULL DEFAULT '{}';

-- No release has written a build.
DROP TABLE builds;
CREATE TABLE builds (
    tenant_id text NOT NULL,
    build_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL CHECK (state IN ('empty', 'ready', 'deleting')),
    run_id text NOT NULL DEFAULT '',
    -- Portable roaring bitmaps: whose records are in the index; those of them that are the tree as it was built last;
    -- the versions that it covers.
    ordinals bytea NOT NULL DEFAULT '',
    nodes bytea NOT NULL DEFAULT '',
    sources bytea NOT NULL DEFAULT '',
    -- Snapshot that it was made from, and the newest one that is known to ask for no build.
    snapshot_id integer NOT NULL DEFAULT 0,
    seen_snapshot_id integer NOT NULL DEFAULT 0,
    artefacts jsonb NOT NULL DEFAULT '{}',
    figures jsonb NOT NULL DEFAULT '{}',
    plan jsonb NOT NULL DEFAULT '{}',
    progress jsonb NOT NULL DEFAULT '{}',
    publish_time timestamptz,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, build_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);
-- One that is being removed does not stand in the way of the next.
CREATE UNIQUE INDEX builds_by_kind ON builds (tenant_id, knowledge_base_id, kind) WHERE state <> 'deleting';
CREATE INDEX builds_by_knowledge_base ON builds (tenant_id, knowledge_base_id);

-- Ordinals that a run may have written records under and that are not published: known before anything is written.
CREATE TABLE build_drafts (
    tenant_id text NOT NULL,
    build_id text NOT NULL,
    run_id text NOT NULL,
    slot text NOT NULL,
    first_ordinal integer NOT NULL,
    ordinal_count integer NOT NULL,
    PRIMARY KEY (tenant_id, build_id, run_id, slot),
    FOREIGN KEY (tenant_id, build_id) REFERENCES builds ON DELETE CASCADE
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['builds', 'build_drafts'] LOOP
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

-- Versions of documents that pass a filter; whoever reads adds the builds: a filter is about documents, and a build's
-- records are judged by the documents that they were made of. p_conditions is a list of
-- {key, operator, texts, numbers, moments, negated}; all must hold, each by one of its values.
CREATE OR REPLACE FUNCTION matching_ordinals(
    p_knowledge_base_id text, p_conditions jsonb, p_document_ids text[]
) RETURNS integer[] LANGUAGE sql STABLE AS $$
    WITH conditions AS (
        SELECT row_number() OVER () AS place, c.*
        FROM jsonb_to_recordset(p_conditions) AS c(
            key text, operator text, texts text[], numbers double precision[], moments timestamptz[], negated boolean)
    ), hits AS (
        SELECT c.place, c.negated, m.document_id
        FROM conditions c
        JOIN corpusmesh.document_metadata m
          ON m.tenant_id = current_setting('corpusmesh.tenant_id', true)
         AND m.knowledge_base_id = p_knowledge_base_id
         AND m.key = c.key
        WHERE CASE c.operator
            WHEN 'exists' THEN true
            WHEN 'eq' THEN m.value_text = ANY (c.texts) OR m.value_number = ANY (c.numbers)
                OR m.value_time = ANY (c.moments)
            WHEN 'prefix' THEN EXISTS (SELECT FROM unnest(c.texts) AS t WHERE starts_with(m.value_text, t))
            WHEN 'lt' THEN m.value_number < ANY (c.numbers) OR m.value_time < ANY (c.moments)
                OR m.value_text < ANY (c.texts)
            WHEN 'lte' THEN m.value_number <= ANY (c.numbers) OR m.value_time <= ANY (c.moments)
                OR m.value_text <= ANY (c.texts)
            WHEN 'gt' THEN m.value_number > ANY (c.numbers) OR m.value_time > ANY (c.moments)
                OR m.value_text > ANY (c.texts)
            WHEN 'gte' THEN m.value_number >= ANY (c.numbers) OR m.value_time >= ANY (c.moments)
                OR m.value_text >= ANY (c.texts)
            ELSE false END
    )
    SELECT coalesce(array_agg(v.ordinal), '{}')
    FROM corpusmesh.versions v
    WHERE v.tenant_id = current_setting('corpusmesh.tenant_id', true)
      AND v.knowledge_base_id = p_knowledge_base_id
      AND (p_document_ids IS NULL OR v.document_id = ANY (p_document_ids))
      AND (NOT EXISTS (SELECT FROM conditions WHERE NOT negated) OR v.document_id IN (
            SELECT h.document_id FROM hits h WHERE NOT h.negated GROUP BY h.document_id
            HAVING count(DISTINCT h.place) = (SELECT count(*) FROM conditions WHERE NOT negated)))
      AND v.document_id NOT IN (SELECT h.document_id FROM hits h WHERE h.negated)
$$;

-- All that a read needs to know, at one moment and in one round trip: the role and the tenant are set inside, so that no
-- transaction has to be opened around it. p_sees_all says that access lists do not bind the caller.
DROP FUNCTION read_visibility(text, text, text[], boolean, text, integer, jsonb, text[]);
CREATE FUNCTION read_visibility(
    p_tenant_id text, p_user_id text, p_groups text[], p_sees_all boolean, p_knowledge_base_id text,
    p_snapshot_id integer, p_conditions jsonb, p_document_ids text[]
) RETURNS TABLE (
    owner_user_id text, permission text, config jsonb, space_id text, state text, policy_epoch bigint,
    snapshot_id integer, published bytea, hidden integer[], matching integer[], next_ordinal integer,
    builds bytea[], gone_builds bytea[]
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('role', 'corpusmesh_app', true), set_config('corpusmesh.tenant_id', p_tenant_id, true);
    RETURN QUERY
    SELECT k.owner_user_id, k.permission, k.config, k.space_id, k.state, k.policy_epoch,
        coalesce(p_snapshot_id, k.current_snapshot_id),
        s.ordinals,
        ARRAY(
            -- The current snapshot holds nothing deleted or taken back; an earlier one may.
            SELECT v.ordinal
            FROM corpusmesh.versions v
            WHERE p_snapshot_id IS NOT NULL
              AND v.tenant_id = p_tenant_id AND v.knowledge_base_id = p_knowledge_base_id
              AND v.state IN ('purged', 'cancelled')
            UNION
            SELECT v.ordinal
            FROM corpusmesh.documents d
            JOIN corpusmesh.versions v USING (tenant_id, knowledge_base_id, document_id)
            WHERE d.tenant_id = p_tenant_id AND d.knowledge_base_id = p_knowledge_base_id
              AND NOT p_sees_all AND k.owner_user_id <> p_user_id AND d.acl_restricted
              AND NOT EXISTS (
                SELECT FROM corpusmesh.document_acl a
                WHERE a.tenant_id = p_tenant_id AND a.knowledge_base_id = p_knowledge_base_id
                  AND a.document_id = d.document_id AND a.effect = 'allow'
                  AND ((a.principal_kind = 'user' AND a.principal_id = p_user_id)
                    OR (a.principal_kind = 'group' AND a.principal_id = ANY (p_groups))))
            UNION
            SELECT v.ordinal
            FROM corpusmesh.document_acl a
            JOIN corpusmesh.versions v USING (tenant_id, knowledge_base_id, document_id)
            WHERE a.tenant_id = p_tenant_id AND a.knowledge_base_id = p_knowledge_base_id
              AND NOT p_sees_all AND k.owner_user_id <> p_user_id AND a.effect = 'deny'
              AND ((a.principal_kind = 'user' AND a.principal_id = p_user_id)
                OR (a.principal_kind = 'group' AND a.principal_id = ANY (p_groups)))
        ),
        CASE WHEN p_conditions IS NULL AND p_document_ids IS NULL THEN NULL
            ELSE corpusmesh.matching_ordinals(p_knowledge_base_id, coalesce(p_conditions, '[]'), p_document_ids) END,
        t.next_ordinal,
        ARRAY(
            SELECT b.ordinals FROM corpusmesh.builds b
            WHERE b.tenant_id = p_tenant_id AND b.knowledge_base_id = p_knowledge_base_id AND b.state <> 'deleting'),
        ARRAY(
            SELECT b.ordinals FROM corpusmesh.builds b
            WHERE b.tenant_id = p_tenant_id AND b.knowledge_base_id = p_knowledge_base_id AND b.state = 'deleting')
    FROM corpusmesh.knowledge_bases k
    JOIN corpusmesh.tenants t USING (tenant_id)
    LEFT JOIN corpusmesh.snapshots s
      ON s.tenant_id = k.tenant_id AND s.knowledge_base_id = k.knowledge_base_id
     AND s.snapshot_id = coalesce(p_snapshot_id, k.current_snapshot_id)
    WHERE k.tenant_id = p_tenant_id AND k.knowledge_base_id = p_knowledge_base_id;
END $$;
