-- The first schema. Every row carries its tenant; row-level security is the second lock behind the code.
--
-- Two roles that nobody logs in as: corpusmesh_app sees the tenant named by the setting corpusmesh.tenant_id, and
-- nothing where none is named; corpusmesh_system sees all (relay, sweeper, key look-up, administration of tenants). The
-- user that logs in inherits neither: a transaction that sets no role sees nothing.
-- Needs PostgreSQL 16 or newer. Both roles are made here if the user has CREATEROLE; otherwise an administrator makes them:
--   CREATE ROLE corpusmesh_app NOLOGIN; CREATE ROLE corpusmesh_system NOLOGIN;
--   GRANT corpusmesh_app, corpusmesh_system TO <login user> WITH INHERIT FALSE, SET TRUE;

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['corpusmesh_app', 'corpusmesh_system'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- Another database of the same server was quicker.
            END;
        END IF;
        IF NOT pg_has_role(current_user, wanted, 'SET') THEN
            EXECUTE format('GRANT %I TO %I WITH INHERIT FALSE, SET TRUE', wanted, current_user);
        END IF;
    END LOOP;
END $$;

CREATE SCHEMA corpusmesh;
SET LOCAL search_path = corpusmesh;

CREATE TABLE tenants (
    tenant_id text PRIMARY KEY CHECK (tenant_id ~ '^[a-z0-9-]{1,63}$'),
    display_name text NOT NULL,
    -- The index keeps ordinals in a signed 32-bit field; they are never used again.
    next_ordinal integer NOT NULL DEFAULT 1 CHECK (next_ordinal > 0),
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended')),
    create_time timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE users (
    tenant_id text NOT NULL REFERENCES tenants,
    user_id text NOT NULL,
    display_name text NOT NULL DEFAULT '',
    disabled boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id)
);

CREATE TABLE memberships (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    role text NOT NULL CHECK (role IN ('owner', 'admin', 'editor', 'viewer')),
    groups text[] NOT NULL DEFAULT '{}',
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users ON DELETE CASCADE
);

CREATE TABLE api_keys (
    tenant_id text NOT NULL,
    key_id text NOT NULL UNIQUE,
    user_id text NOT NULL,
    secret_sha256 bytea NOT NULL CHECK (octet_length(secret_sha256) = 32),
    scope text NOT NULL CHECK (scope IN ('read', 'write', 'admin', 'platform')),
    create_time timestamptz NOT NULL DEFAULT now(),
    expire_time timestamptz,
    revoke_time timestamptz,
    last_use_time timestamptz,
    PRIMARY KEY (tenant_id, key_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX api_keys_by_user ON api_keys (tenant_id, user_id);

CREATE TABLE knowledge_bases (
    tenant_id text NOT NULL REFERENCES tenants,
    knowledge_base_id text NOT NULL CHECK (knowledge_base_id ~ '^[a-z0-9-]{1,63}$'),
    display_name text NOT NULL,
    description text NOT NULL DEFAULT '',
    owner_user_id text NOT NULL,
    permission text NOT NULL CHECK (permission IN ('private', 'team')),
    config jsonb NOT NULL DEFAULT '{}',
    space_id text NOT NULL,
    current_snapshot_id integer NOT NULL DEFAULT 0,
    last_snapshot_id integer NOT NULL DEFAULT 0,
    policy_epoch bigint NOT NULL DEFAULT 1,
    revision bigint NOT NULL DEFAULT 1,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'deleting', 'deleted')),
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id)
);

CREATE TABLE snapshots (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    snapshot_id integer NOT NULL,
    parent_id integer NOT NULL,
    ordinals bytea NOT NULL,
    reason text NOT NULL CHECK (reason IN ('publish', 'rollback', 'delete', 'cancel', 'build')),
    created_by text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, snapshot_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);

CREATE TABLE documents (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    document_id text NOT NULL CHECK (document_id ~ '^[a-z0-9-]{1,63}$'),
    display_name text NOT NULL,
    source_uri text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    latest_version integer NOT NULL,
    acl_restricted boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'deleting', 'deleted')),
    created_by text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, document_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);
CREATE INDEX documents_restricted ON documents (tenant_id, knowledge_base_id) WHERE acl_restricted;

CREATE TABLE versions (
    tenant_id text NOT NULL,
    ordinal integer NOT NULL,
    knowledge_base_id text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    display_name text NOT NULL,
    original_sha256 text NOT NULL CHECK (original_sha256 ~ '^[0-9a-f]{64}$'),
    size_bytes bigint NOT NULL,
    media_type text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    page_count integer NOT NULL DEFAULT 0,
    chunk_count integer NOT NULL DEFAULT 0,
    token_count bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN (
        'pending', 'parsing', 'chunking', 'embedding', 'indexing', 'ready', 'failed', 'cancelled', 'purged')),
    failed_stage text NOT NULL DEFAULT '',
    error_reason text NOT NULL DEFAULT '',
    error_message text NOT NULL DEFAULT '',
    config_hash text NOT NULL DEFAULT '',
    artefacts jsonb NOT NULL DEFAULT '{}',
    warnings text[] NOT NULL DEFAULT '{}',
    run_id text NOT NULL DEFAULT '',
    publish_time timestamptz,
    superseded_ordinal integer,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, ordinal),
    UNIQUE (tenant_id, knowledge_base_id, document_id, version),
    FOREIGN KEY (tenant_id, knowledge_base_id, document_id) REFERENCES documents
);
CREATE INDEX versions_by_run ON versions (tenant_id, run_id);
CREATE INDEX versions_waiting ON versions (tenant_id, knowledge_base_id)
    WHERE state = 'ready' AND publish_time IS NULL;
CREATE INDEX versions_purged ON versions (tenant_id, knowledge_base_id) WHERE state = 'purged';
CREATE INDEX versions_by_original ON versions (tenant_id, original_sha256);

CREATE TABLE builds (
    tenant_id text NOT NULL,
    build_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    kind text NOT NULL,
    ordinal integer NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'running', 'ready', 'failed', 'cancelled', 'purged')),
    sources bytea NOT NULL,
    artefacts jsonb NOT NULL DEFAULT '{}',
    run_id text NOT NULL DEFAULT '',
    publish_time timestamptz,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, build_id),
    UNIQUE (tenant_id, ordinal),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);
CREATE INDEX builds_by_knowledge_base ON builds (tenant_id, knowledge_base_id, kind);

CREATE TABLE document_acl (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    document_id text NOT NULL,
    principal_kind text NOT NULL CHECK (principal_kind IN ('user', 'group')),
    principal_id text NOT NULL,
    effect text NOT NULL CHECK (effect IN ('allow', 'deny')),
    PRIMARY KEY (tenant_id, knowledge_base_id, document_id, principal_kind, principal_id, effect),
    FOREIGN KEY (tenant_id, knowledge_base_id, document_id) REFERENCES documents ON DELETE CASCADE
);
CREATE INDEX document_acl_denials ON document_acl (tenant_id, knowledge_base_id, principal_kind, principal_id)
    WHERE effect = 'deny';

CREATE TABLE document_metadata (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    document_id text NOT NULL,
    key text NOT NULL,
    value_text text NOT NULL,
    value_number double precision,
    value_time timestamptz,
    PRIMARY KEY (tenant_id, knowledge_base_id, document_id, key),
    FOREIGN KEY (tenant_id, knowledge_base_id, document_id) REFERENCES documents ON DELETE CASCADE
);
-- Values may be long: the index holds their beginning, which prefix and equality conditions both use.
CREATE INDEX document_metadata_text
    ON document_metadata (tenant_id, knowledge_base_id, key, left(value_text, 200) text_pattern_ops);
CREATE INDEX document_metadata_number ON document_metadata (tenant_id, knowledge_base_id, key, value_number)
    WHERE value_number IS NOT NULL;
CREATE INDEX document_metadata_time ON document_metadata (tenant_id, knowledge_base_id, key, value_time)
    WHERE value_time IS NOT NULL;

CREATE TABLE runs (
    tenant_id text NOT NULL,
    run_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed')),
    lane text NOT NULL CHECK (lane IN ('interactive', 'bulk')),
    request_id text,
    created_by text NOT NULL,
    part_count integer NOT NULL,
    batch_count integer NOT NULL DEFAULT 0,
    accepts_until timestamptz,
    open_task_count integer NOT NULL DEFAULT 0 CHECK (open_task_count >= 0),
    passed jsonb NOT NULL DEFAULT '{}',
    failed_part_count integer NOT NULL DEFAULT 0,
    retry_count integer NOT NULL DEFAULT 0,
    hold_publish boolean NOT NULL DEFAULT false,
    sequence bigint NOT NULL DEFAULT 0,
    error_reason text NOT NULL DEFAULT '',
    error_message text NOT NULL DEFAULT '',
    headers jsonb NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT now(),
    start_time timestamptz,
    end_time timestamptz,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);
CREATE INDEX runs_accepting ON runs (accepts_until) WHERE accepts_until IS NOT NULL;
CREATE UNIQUE INDEX runs_by_request ON runs (tenant_id, created_by, request_id) WHERE request_id IS NOT NULL;
-- Ids rise with time.
CREATE INDEX runs_by_time ON runs (tenant_id, knowledge_base_id, run_id DESC);

CREATE TABLE tasks (
    tenant_id text NOT NULL,
    task_id text NOT NULL,
    run_id text NOT NULL,
    batch text NOT NULL,
    stage text NOT NULL,
    lane text NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'running', 'done', 'failed', 'cancelled', 'split')),
    parts integer[] NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    deferral_count integer NOT NULL DEFAULT 0,
    epoch integer NOT NULL DEFAULT 0,
    dispatch integer NOT NULL DEFAULT 1,
    lease_until timestamptz,
    not_before timestamptz,
    worker text NOT NULL DEFAULT '',
    error_reason text NOT NULL DEFAULT '',
    error_message text NOT NULL DEFAULT '',
    payload jsonb NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT now(),
    dispatch_time timestamptz NOT NULL DEFAULT now(),
    end_time timestamptz,
    PRIMARY KEY (tenant_id, task_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX tasks_by_run ON tasks (tenant_id, run_id);
CREATE INDEX tasks_open ON tasks (tenant_id, stage, lane) WHERE state IN ('pending', 'running');
CREATE INDEX tasks_leased ON tasks (lease_until) WHERE state = 'running';

CREATE TABLE outbox (
    outbox_id bigserial PRIMARY KEY,
    tenant_id text NOT NULL,
    subject text NOT NULL,
    payload bytea NOT NULL,
    headers jsonb NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT now(),
    due_time timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_due ON outbox (due_time, outbox_id);

CREATE TABLE idempotency (
    tenant_id text NOT NULL,
    user_id text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea,
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, method, request_id)
);
CREATE INDEX idempotency_by_expiry ON idempotency (expire_time);

CREATE TABLE chunk_edits (
    tenant_id text NOT NULL,
    edit_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    anchor jsonb NOT NULL,
    change jsonb NOT NULL,
    state text NOT NULL CHECK (state IN ('placed', 'unplaced', 'withdrawn')),
    created_by text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, edit_id),
    FOREIGN KEY (tenant_id, knowledge_base_id, document_id) REFERENCES documents ON DELETE CASCADE
);
CREATE INDEX chunk_edits_by_document ON chunk_edits (tenant_id, knowledge_base_id, document_id);

CREATE TABLE tag_sets (
    tenant_id text NOT NULL,
    tag_set_id text NOT NULL,
    display_name text NOT NULL,
    knowledge_base_id text NOT NULL,
    config jsonb NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, tag_set_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);

CREATE TABLE llm_cache (
    tenant_id text NOT NULL REFERENCES tenants,
    cache_key bytea NOT NULL,
    model text NOT NULL,
    response bytea NOT NULL,
    sources integer[] NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT now(),
    last_use_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, cache_key)
);
CREATE INDEX llm_cache_by_source ON llm_cache USING gin (sources);
CREATE INDEX llm_cache_by_use ON llm_cache (last_use_time);

CREATE TABLE llm_usage (
    tenant_id text NOT NULL REFERENCES tenants,
    day date NOT NULL,
    model text NOT NULL,
    purpose text NOT NULL,
    run_id text NOT NULL DEFAULT '',
    call_count bigint NOT NULL DEFAULT 0,
    input_token_count bigint NOT NULL DEFAULT 0,
    output_token_count bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, day, model, purpose, run_id)
);

CREATE TABLE audit_log (
    tenant_id text NOT NULL,
    audit_id bigint GENERATED ALWAYS AS IDENTITY,
    time timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    key_id text NOT NULL DEFAULT '',
    action text NOT NULL,
    resource text NOT NULL,
    outcome text NOT NULL,
    request_id text NOT NULL DEFAULT '',
    detail jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, audit_id)
);
CREATE INDEX audit_log_by_time ON audit_log (tenant_id, time DESC);

DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'corpusmesh' LOOP
        EXECUTE format('ALTER TABLE corpusmesh.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE corpusmesh.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON corpusmesh.%I TO corpusmesh_app '
            'USING (tenant_id = current_setting(''corpusmesh.tenant_id'', true)) '
            'WITH CHECK (tenant_id = current_setting(''corpusmesh.tenant_id'', true))', name);
        -- A policy instead of the attribute BYPASSRLS: managed servers seldom let anybody grant that.
        EXECUTE format('CREATE POLICY every_tenant ON corpusmesh.%I TO corpusmesh_system USING (true) WITH CHECK (true)',
            name);
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA corpusmesh TO corpusmesh_app, corpusmesh_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA corpusmesh TO corpusmesh_app, corpusmesh_system;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA corpusmesh TO corpusmesh_app, corpusmesh_system;
-- What happened stays written, and a tenant does not make or remove tenants.
REVOKE UPDATE, DELETE ON audit_log FROM corpusmesh_app, corpusmesh_system;
REVOKE INSERT, DELETE ON tenants FROM corpusmesh_app;

-- Wakes the relay; at the end of each transaction that wrote to the outbox, once.
CREATE FUNCTION wake_relay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('corpusmesh_outbox', '');
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_wakes_relay AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION wake_relay();

-- Documents that pass a filter: p_conditions is a list of
-- {key, operator, texts, numbers, moments, negated}; all must hold, each by one of its values.
CREATE FUNCTION matching_ordinals(
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
CREATE FUNCTION read_visibility(
    p_tenant_id text, p_user_id text, p_groups text[], p_sees_all boolean, p_knowledge_base_id text,
    p_snapshot_id integer, p_conditions jsonb, p_document_ids text[]
) RETURNS TABLE (
    owner_user_id text, permission text, config jsonb, space_id text, state text, policy_epoch bigint,
    snapshot_id integer, published bytea, hidden integer[], matching integer[], next_ordinal integer
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('role', 'corpusmesh_app', true), set_config('corpusmesh.tenant_id', p_tenant_id, true);
    RETURN QUERY
    SELECT k.owner_user_id, k.permission, k.config, k.space_id, k.state, k.policy_epoch,
        coalesce(p_snapshot_id, k.current_snapshot_id),
        s.ordinals,
        ARRAY(
            -- The current snapshot holds nothing deleted; an earlier one may.
            SELECT v.ordinal
            FROM corpusmesh.versions v
            WHERE p_snapshot_id IS NOT NULL
              AND v.tenant_id = p_tenant_id AND v.knowledge_base_id = p_knowledge_base_id AND v.state = 'purged'
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
        t.next_ordinal
    FROM corpusmesh.knowledge_bases k
    JOIN corpusmesh.tenants t USING (tenant_id)
    LEFT JOIN corpusmesh.snapshots s
      ON s.tenant_id = k.tenant_id AND s.knowledge_base_id = k.knowledge_base_id
     AND s.snapshot_id = coalesce(p_snapshot_id, k.current_snapshot_id)
    WHERE k.tenant_id = p_tenant_id AND k.knowledge_base_id = p_knowledge_base_id;
END $$;
