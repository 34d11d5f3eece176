-- Graphs: what people give for them, and builds of two kinds (ADR-0014).

SET LOCAL search_path = corpusmesh;

-- For a graph that does not follow by itself: the newest snapshot that is known to show all that the graph was made of;
-- and up to which change of what people give it follows that.
ALTER TABLE builds ADD COLUMN seen_loss_snapshot_id integer NOT NULL DEFAULT 0;
ALTER TABLE builds ADD COLUMN seen_input_sequence bigint NOT NULL DEFAULT 0;

-- What people change in a graph by hand; kept apart from it, so that it holds whatever is built.
CREATE TABLE graph_corrections (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    correction_id text NOT NULL,
    -- The order in which they are applied.
    sequence bigint GENERATED ALWAYS AS IDENTITY,
    content jsonb NOT NULL,
    user_id text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, correction_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);
CREATE INDEX graph_corrections_in_order ON graph_corrections (tenant_id, knowledge_base_id, sequence);

-- Facts that users give for a document.
CREATE TABLE graph_triples (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    document_id text NOT NULL,
    triples jsonb NOT NULL,
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, document_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);

-- How often what people give for a graph was changed, whoever changes it: a graph that has seen less is outdated.
CREATE TABLE graph_inputs (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    sequence bigint NOT NULL,
    PRIMARY KEY (tenant_id, knowledge_base_id)
);

CREATE FUNCTION count_graph_input() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN
        changed := OLD;
    ELSE
        changed := NEW;
    END IF;
    INSERT INTO corpusmesh.graph_inputs AS i (tenant_id, knowledge_base_id, sequence)
    VALUES (changed.tenant_id, changed.knowledge_base_id, 1)
    ON CONFLICT (tenant_id, knowledge_base_id) DO UPDATE SET sequence = i.sequence + 1;
    RETURN NULL;
END $$;

CREATE TRIGGER counted AFTER INSERT OR UPDATE OR DELETE ON graph_corrections
    FOR EACH ROW EXECUTE FUNCTION count_graph_input();
CREATE TRIGGER counted AFTER INSERT OR UPDATE OR DELETE ON graph_triples
    FOR EACH ROW EXECUTE FUNCTION count_graph_input();

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['graph_corrections', 'graph_triples', 'graph_inputs'] LOOP
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

-- All that a read needs to know, at one moment and in one round trip: the role and the tenant are set inside, so that no
-- transaction has to be opened around it. p_sees_all says that access lists do not bind the caller.
DROP FUNCTION read_visibility(text, text, text[], boolean, text, integer, jsonb, text[]);
CREATE FUNCTION read_visibility(
    p_tenant_id text, p_user_id text, p_groups text[], p_sees_all boolean, p_knowledge_base_id text,
    p_snapshot_id integer, p_conditions jsonb, p_document_ids text[]
) RETURNS TABLE (
    owner_user_id text, permission text, config jsonb, space_id text, state text, policy_epoch bigint,
    snapshot_id integer, published bytea, hidden integer[], matching integer[], next_ordinal integer,
    builds bytea[], build_kinds text[], gone_builds bytea[]
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
        -- At most one of each kind: ordered alike, the two lists are one.
        ARRAY(
            SELECT b.ordinals FROM corpusmesh.builds b
            WHERE b.tenant_id = p_tenant_id AND b.knowledge_base_id = p_knowledge_base_id AND b.state <> 'deleting'
            ORDER BY b.kind),
        ARRAY(
            SELECT b.kind FROM corpusmesh.builds b
            WHERE b.tenant_id = p_tenant_id AND b.knowledge_base_id = p_knowledge_base_id AND b.state <> 'deleting'
            ORDER BY b.kind),
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
