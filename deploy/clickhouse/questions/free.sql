-- What the allocators of each service's running processes have free and resident, which a trim would return at best, beside their RSS.
SELECT
    service,
    uniqExact(process) AS running,
    sumIf(latest, term = 'free_in_allocator') AS free_bytes,
    sum(latest) AS rss_bytes
FROM
(
    SELECT service, process, term, argMax(bytes, minute) AS latest
    FROM memory
    WHERE toDate(minute) = {day:Date} AND process IN (SELECT process FROM processes FINAL WHERE toUnixTimestamp(ended) = 0)
    GROUP BY service, process, term
)
GROUP BY service
ORDER BY free_bytes DESC
LIMIT {rows:UInt32}
