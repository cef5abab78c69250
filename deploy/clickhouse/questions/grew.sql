-- Stacks that have grown by more than sampling error in a day, in all services, and in how many of their processes they have grown: of all that this names,
-- 1% at most have not (Benjamini and Hochberg). The variance of growth is as in services.sql.
WITH
ranked AS
(
    SELECT
        service,
        stack,
        grown,
        greatest(least(v_begin + v_end, v_end - v_begin + 2 * v_before), 1) AS variance,
        0.5 * erfc(grown / sqrt(2 * variance)) AS p,
        row_number() OVER (ORDER BY p) AS place,
        count() OVER () AS stacks
    FROM
    (
        SELECT
            service,
            stack,
            sum(allocated - freed) AS grown,
            sum(v_state) AS v_begin,
            v_begin + sum(v_allocated - v_freed) AS v_end,
            least(sum(v_lost + v_seen), sum(v_freed)) AS v_before
        FROM stack_days
        WHERE day = {day:Date}
        GROUP BY service, stack
    )
),
beyond_chance AS
(
    SELECT service, stack, grown, variance
    FROM ranked
    WHERE place <= (SELECT maxIf(place, p <= 0.01 * place / stacks) FROM ranked)
    ORDER BY grown DESC
    LIMIT {rows:UInt32}
)
SELECT
    service,
    round(grown) AS growth_bytes,
    round(1.96 * sqrt(variance)) AS growth_bytes_half_width,
    growing,
    lower(hex(stack)) AS stack_hash,
    arrayMap(it -> it.2, arraySort(it -> it.1, groupArray((place, function)))) AS functions
FROM
(
    SELECT service, stack, grown, variance, growing, frame, place
    FROM beyond_chance
    LEFT JOIN
    (
        SELECT service, stack, countIf(bytes >= 0.5) AS growing
        FROM
        (
            SELECT service, stack, process, sum(n * ramson_bytes(size, interval) * ramson_sign(age)) AS bytes
            FROM heap
            WHERE toDate(minute) = {day:Date} AND age > 0 AND (service, stack) IN (SELECT service, stack FROM beyond_chance)
            GROUP BY service, stack, process
        )
        GROUP BY service, stack
    ) AS of_processes USING (service, stack)
    LEFT JOIN (SELECT stack, any(frames) AS all_frames FROM stacks GROUP BY stack) AS named USING (stack)
    LEFT ARRAY JOIN all_frames AS frame, arrayEnumerate(all_frames) AS place
) AS of_frames
LEFT JOIN (SELECT frame, any(function) AS function FROM frames GROUP BY frame) AS names USING (frame)
GROUP BY service, stack, grown, variance, growing
ORDER BY growth_bytes DESC
