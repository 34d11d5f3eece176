-- What retrieval keeps: a tenant's own words, conversations, recorded retrievals, golden sets.
--
-- Whatever holds text made from documents names the ordinals of the versions it was made from in `sources`, so that a
-- purge can take it along and a reader can be kept from what he may not see any more.

SET LOCAL search_path = corpusmesh;

CREATE TABLE vocabularies (
    tenant_id text PRIMARY KEY REFERENCES tenants,
    -- Terms that are searched as phrases: [text, …].
    terms jsonb NOT NULL DEFAULT '[]',
    -- Groups of words that mean the same: [[text, …], …].
    synonyms jsonb NOT NULL DEFAULT '[]',
    revision bigint NOT NULL DEFAULT 1,
    update_user_id text NOT NULL DEFAULT '',
    update_time timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE conversations (
    tenant_id text NOT NULL,
    conversation_id text NOT NULL,
    -- Nobody but this user reads it.
    user_id text NOT NULL,
    title text NOT NULL DEFAULT '',
    knowledge_base_ids text[] NOT NULL DEFAULT '{}',
    message_count integer NOT NULL DEFAULT 0,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, conversation_id),
    FOREIGN KEY (tenant_id) REFERENCES tenants
);
CREATE INDEX conversations_by_user ON conversations (tenant_id, user_id, update_time DESC, conversation_id);

CREATE TABLE messages (
    tenant_id text NOT NULL,
    conversation_id text NOT NULL,
    position integer NOT NULL,
    speaker text NOT NULL CHECK (speaker IN ('user', 'assistant')),
    text text NOT NULL,
    -- What an answer cites, as the contract writes it.
    citations jsonb NOT NULL DEFAULT '[]',
    knowledge_base_ids text[] NOT NULL DEFAULT '{}',
    sources integer[] NOT NULL DEFAULT '{}',
    -- Set where a purge took the text along.
    is_erased boolean NOT NULL DEFAULT false,
    -- Set while an answer is being made, and where its making broke off.
    is_partial boolean NOT NULL DEFAULT false,
    -- Names a question, so that one that is sent again is not added again.
    request_id text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, conversation_id, position),
    FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations ON DELETE CASCADE
);
CREATE INDEX messages_by_source ON messages USING gin (sources);
CREATE UNIQUE INDEX messages_by_request ON messages (tenant_id, conversation_id, request_id) WHERE request_id <> '';

CREATE TABLE retrievals (
    tenant_id text NOT NULL,
    retrieval_id text NOT NULL,
    user_id text NOT NULL,
    knowledge_base_ids text[] NOT NULL,
    -- Snapshot by knowledge base.
    snapshots jsonb NOT NULL,
    -- The request with its effective plan, as the contract serialises it.
    request bytea NOT NULL,
    -- Hits with their scores, best first, without their texts.
    hits jsonb NOT NULL,
    sources integer[] NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT now(),
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, retrieval_id),
    FOREIGN KEY (tenant_id) REFERENCES tenants
);
CREATE INDEX retrievals_by_source ON retrievals USING gin (sources);
CREATE INDEX retrievals_by_knowledge_base ON retrievals USING gin (knowledge_base_ids);
CREATE INDEX retrievals_expired ON retrievals (expire_time);

CREATE TABLE golden_sets (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    golden_set_id text NOT NULL,
    display_name text NOT NULL DEFAULT '',
    question_count integer NOT NULL DEFAULT 0,
    create_user_id text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    update_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, golden_set_id),
    FOREIGN KEY (tenant_id, knowledge_base_id) REFERENCES knowledge_bases
);

CREATE TABLE golden_questions (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    golden_set_id text NOT NULL,
    position integer NOT NULL,
    question text NOT NULL,
    answers jsonb NOT NULL DEFAULT '[]',
    -- What should be found: [{"document": id, "quote": text, "page": n}, …]; empty for a question without an answer.
    gold jsonb NOT NULL DEFAULT '[]',
    -- Versions that the question was drawn from; empty for an imported one.
    sources integer[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, knowledge_base_id, golden_set_id, position),
    FOREIGN KEY (tenant_id, knowledge_base_id, golden_set_id) REFERENCES golden_sets ON DELETE CASCADE
);
CREATE INDEX golden_questions_by_source ON golden_questions USING gin (sources);

CREATE TABLE evaluations (
    tenant_id text NOT NULL,
    knowledge_base_id text NOT NULL,
    golden_set_id text NOT NULL,
    evaluation_id text NOT NULL,
    snapshot_id bigint NOT NULL,
    -- Plans and what was measured with each; numbers alone.
    results jsonb NOT NULL,
    create_user_id text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, knowledge_base_id, golden_set_id, evaluation_id),
    FOREIGN KEY (tenant_id, knowledge_base_id, golden_set_id) REFERENCES golden_sets ON DELETE CASCADE
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['vocabularies', 'conversations', 'messages', 'retrievals', 'golden_sets',
        'golden_questions', 'evaluations'] LOOP
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
