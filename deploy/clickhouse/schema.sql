-- Tables of ramson's fleet, version 1, for a single ClickHouse server (24.8 or later):
--
--   clickhouse-client --multiquery < deploy/clickhouse/schema.sql
--
-- A row of `heap` says how many samples of exactly `size` bytes were live, allocated or freed. What they stand for follows by arithmetic,
-- and adds up: the functions below. Rows are there only for what has changed.
CREATE DATABASE IF NOT EXISTS ramson;

-- Probability that a block of so many bytes is sampled, 1 − e^(−size/interval): for small blocks by its series, without cancellation.
CREATE FUNCTION IF NOT EXISTS ramson_probability AS (size, interval) ->
    multiIf(
        interval <= 1, 1,
        size < interval / 10000, size / interval - pow(size / interval, 2) / 2 + pow(size / interval, 3) / 6,
        1 - exp(-size / interval));

-- What one sample stands for, and the variances of that.
CREATE FUNCTION IF NOT EXISTS ramson_objects AS (size, interval) -> 1 / ramson_probability(size, interval);
CREATE FUNCTION IF NOT EXISTS ramson_bytes AS (size, interval) -> size / ramson_probability(size, interval);
CREATE FUNCTION IF NOT EXISTS ramson_objects_variance AS (size, interval) ->
    (1 - ramson_probability(size, interval)) / pow(ramson_probability(size, interval), 2);
CREATE FUNCTION IF NOT EXISTS ramson_bytes_variance AS (size, interval) ->
    pow(size, 2) * (1 - ramson_probability(size, interval)) / pow(ramson_probability(size, interval), 2);

-- 1 for what was live or was allocated, −1 for what was freed or ended: the sum over a day is what is live.
CREATE FUNCTION IF NOT EXISTS ramson_sign AS (age) -> if(age <= 1, 1, -1);

-- Of what was freed: seconds that it had lived at most.
CREATE FUNCTION IF NOT EXISTS ramson_lived AS (age) -> exp2(if(age >= 66, age - 66, age - 2) + 17) / 1e9;

-- age is a code. 0: live when the day began, or when the agent first saw a process that had begun on an earlier day. 1: allocated in this
-- minute. 2 to 33: freed by the look in this minute, after a lifetime that the profile file counts together (2 + i: less than 2^(i+17) ns).
-- 66 to 97: live when the process ended, likewise by its age.
CREATE TABLE IF NOT EXISTS ramson.heap (
    service LowCardinality(String) CODEC(ZSTD(1)),
    version LowCardinality(String) CODEC(ZSTD(1)),
    stack UInt64 CODEC(ZSTD(1)),
    process UInt64 CODEC(ZSTD(1)),
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
    size UInt64 CODEC(ZSTD(1)),
    age UInt8 CODEC(ZSTD(1)),
    n UInt32 CODEC(ZSTD(1)),
    interval UInt64 CODEC(ZSTD(1))
) ENGINE = MergeTree
PARTITION BY toDate(minute)
ORDER BY (service, stack, process, minute, size, age)
TTL minute + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

-- Stacks by day, over all processes: what was live when the day began, allocated and freed, with variances. Of what was freed, a part may
-- have been live when the day began (its variance is v_lost at most), or when an agent first saw its process during the day (v_seen).
CREATE TABLE IF NOT EXISTS ramson.stack_days (
    service LowCardinality(String),
    version LowCardinality(String),
    stack UInt64,
    day Date,
    state SimpleAggregateFunction(sum, Float64),
    v_state SimpleAggregateFunction(sum, Float64),
    allocated SimpleAggregateFunction(sum, Float64),
    v_allocated SimpleAggregateFunction(sum, Float64),
    freed SimpleAggregateFunction(sum, Float64),
    v_freed SimpleAggregateFunction(sum, Float64),
    v_lost SimpleAggregateFunction(sum, Float64),
    v_seen SimpleAggregateFunction(sum, Float64),
    samples SimpleAggregateFunction(sum, UInt64)
) ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (service, stack, day, version)
TTL day + INTERVAL 800 DAY
SETTINGS non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS ramson.stack_days_of_heap TO ramson.stack_days AS
SELECT
    service,
    version,
    stack,
    toDate(minute) AS day,
    sumIf(n * ramson_bytes(size, interval), age = 0) AS state,
    sumIf(n * ramson_bytes_variance(size, interval), age = 0) AS v_state,
    sumIf(n * ramson_bytes(size, interval), age = 1) AS allocated,
    sumIf(n * ramson_bytes_variance(size, interval), age = 1) AS v_allocated,
    sumIf(n * ramson_bytes(size, interval), age > 1) AS freed,
    sumIf(n * ramson_bytes_variance(size, interval), age > 1) AS v_freed,
    sumIf(n * ramson_bytes_variance(size, interval), age > 1 AND ramson_lived(age) > minute - toStartOfDay(minute)) AS v_lost,
    sumIf(n * ramson_bytes_variance(size, interval), age = 0 AND minute != toStartOfDay(minute)) AS v_seen,
    sumIf(n, age = 1) AS samples
FROM ramson.heap
GROUP BY service, version, stack, day;

-- Names. Rows that come again are the same.
CREATE TABLE IF NOT EXISTS ramson.stacks (
    stack UInt64,
    frames Array(UInt64) CODEC(ZSTD(3)),
    seen Date DEFAULT today()
) ENGINE = ReplacingMergeTree(seen) ORDER BY stack TTL seen + INTERVAL 800 DAY
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS ramson.frames (
    frame UInt64,
    function String CODEC(ZSTD(3)),
    file LowCardinality(String),
    seen Date DEFAULT today()
) ENGINE = ReplacingMergeTree(seen) ORDER BY frame TTL seen + INTERVAL 800 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- Processes as they were last seen; ended is 1970 while one runs. Where nobody noted the end, it is when the agent missed the process.
CREATE TABLE IF NOT EXISTS ramson.processes (
    process UInt64,
    service LowCardinality(String),
    version LowCardinality(String),
    host LowCardinality(String),
    unit LowCardinality(String),
    container String,
    pod String,
    program LowCardinality(String),
    pid UInt32,
    started DateTime('UTC'),
    seen DateTime64(3, 'UTC'),
    ended DateTime('UTC'),
    end String
) ENGINE = ReplacingMergeTree(seen) ORDER BY process TTL toDateTime(seen) + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- Terms of RSS, which add up to it, as `ramson report` has them, without those that are 0: a process's rows of one minute are its memory.
CREATE TABLE IF NOT EXISTS ramson.memory (
    service LowCardinality(String),
    process UInt64,
    minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
    term LowCardinality(String),
    bytes Int64 CODEC(T64, ZSTD(1))
) ENGINE = ReplacingMergeTree
PARTITION BY toDate(minute)
ORDER BY (service, process, term, minute)
TTL minute + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS ramson.schema (version UInt32, at DateTime DEFAULT now()) ENGINE = ReplacingMergeTree ORDER BY version;
INSERT INTO ramson.schema (version) VALUES (1);
