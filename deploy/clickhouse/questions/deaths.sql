-- Processes that ran out of memory on a day, and what was live in their heaps then.
SELECT
    ended,
    service,
    host,
    pid,
    end,
    round(live) AS live_bytes,
    round(1.96 * sqrt(variance)) AS live_bytes_half_width,
    function AS most_in
FROM (SELECT * FROM processes FINAL) AS dead
LEFT JOIN
(
    SELECT
        process,
        sum(bytes) AS live,
        sum(of_stack) AS variance,
        argMax(stack, bytes) AS largest
    FROM
    (
        SELECT
            process,
            stack,
            sum(n * ramson_bytes(size, interval)) AS bytes,
            sum(n * ramson_bytes_variance(size, interval)) AS of_stack
        FROM heap
        WHERE toDate(minute) = {day:Date} AND age >= 66
        GROUP BY process, stack
    )
    GROUP BY process
) AS heap USING (process)
LEFT JOIN (SELECT stack AS largest, any(frames[1]) AS frame FROM stacks GROUP BY stack) AS named USING (largest)
LEFT JOIN (SELECT frame, any(function) AS function FROM frames GROUP BY frame) AS names USING (frame)
WHERE toDate(ended) = {day:Date} AND (end LIKE '%OOM killer%' OR end LIKE '%out of memory%')
ORDER BY ended DESC
LIMIT {rows:UInt32}
