-- What the allocators of each service's running processes have free and resident, which a trim would return at best, beside their RSS:
-- at each process's latest survey of the day. No value: no allocator tells.
SELECT
    service,
    uniqExact(process) AS running,
    if(countIf(term = 'free_in_allocator') = 0, NULL, sumIf(bytes, term = 'free_in_allocator')) AS free_bytes,
    sum(bytes) AS rss_bytes
FROM memory FINAL
WHERE toDate(minute) = {day:Date}
    AND (process, minute) IN (SELECT process, max(minute) FROM memory WHERE toDate(minute) = {day:Date} GROUP BY process)
    AND process IN
    (
        SELECT process
        FROM processes FINAL
        WHERE toDate(started) <= {day:Date} AND toDate(seen) >= {day:Date} AND (toUnixTimestamp(ended) = 0 OR toDate(ended) > {day:Date})
    )
GROUP BY service
ORDER BY free_bytes DESC NULLS LAST
LIMIT {rows:UInt32}
