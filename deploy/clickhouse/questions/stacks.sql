-- What of a service is live at the end of a day, by stack, leaf first.
SELECT
    live_bytes,
    live_bytes_half_width,
    growth_bytes,
    lower(hex(stack)) AS stack_hash,
    arrayMap(it -> it.2, arraySort(it -> it.1, groupArray((place, function)))) AS functions
FROM
(
    SELECT stack, live_bytes, live_bytes_half_width, growth_bytes, frame, place
    FROM
    (
        SELECT
            stack,
            round(sum(state + allocated - freed)) AS live_bytes,
            round(1.96 * sqrt(greatest(sum(v_state + v_allocated - v_freed), 0))) AS live_bytes_half_width,
            round(sum(allocated - freed)) AS growth_bytes
        FROM stack_days
        WHERE service = {service:String} AND day = {day:Date}
        GROUP BY stack
        HAVING live_bytes > 0
        ORDER BY live_bytes DESC
        LIMIT {rows:UInt32}
    ) AS largest
    LEFT JOIN (SELECT stack, any(frames) AS all_frames FROM stacks GROUP BY stack) AS named USING (stack)
    LEFT ARRAY JOIN all_frames AS frame, arrayEnumerate(all_frames) AS place
) AS of_frames
LEFT JOIN (SELECT frame, any(function) AS function FROM frames GROUP BY frame) AS names USING (frame)
GROUP BY stack, live_bytes, live_bytes_half_width, growth_bytes
ORDER BY live_bytes DESC
