-- Which services use most: live bytes of each at the end of a day, and how they have grown since it began, with their ±.
-- The variance of growth is the smaller of two bounds: that of both ends, and that of what was allocated but not freed since, and of what was freed and
-- allocated before.
SELECT
    service,
    running,
    hosts,
    round(live) AS live_bytes,
    round(1.96 * sqrt(greatest(v_end, 0))) AS live_bytes_half_width,
    round(grown) AS growth_bytes,
    round(1.96 * sqrt(greatest(least(v_begin + v_end, v_end - v_begin + 2 * v_before), 0))) AS growth_bytes_half_width,
    round(allocated_in_all) AS allocated_bytes
FROM
(
    SELECT
        service,
        sum(state + allocated - freed) AS live,
        sum(allocated - freed) AS grown,
        sum(allocated) AS allocated_in_all,
        sum(v_state) AS v_begin,
        v_begin + sum(v_allocated - v_freed) AS v_end,
        least(sum(v_lost + v_seen), sum(v_freed)) AS v_before
    FROM stack_days
    WHERE day = {day:Date}
    GROUP BY service
) AS heap
LEFT JOIN
(
    SELECT service, count() AS running, uniqExact(host) AS hosts
    FROM processes FINAL
    WHERE toDate(started) <= {day:Date} AND toDate(seen) >= {day:Date} AND (toUnixTimestamp(ended) = 0 OR toDate(ended) > {day:Date})
    GROUP BY service
) AS known USING (service)
ORDER BY live_bytes DESC
LIMIT {rows:UInt32}
