-- Stacks of a service that other versions have on a day, and one version never had.
SELECT
    live_bytes,
    live_bytes_half_width,
    allocated_bytes,
    versions,
    lower(hex(stack)) AS stack_hash,
    arrayMap(it -> it.2, arraySort(it -> it.1, groupArray((place, function)))) AS functions
FROM
(
    SELECT stack, live_bytes, live_bytes_half_width, allocated_bytes, versions, frame, place
    FROM
    (
        SELECT
            stack,
            round(sum(state + allocated - freed)) AS live_bytes,
            round(1.96 * sqrt(greatest(sum(v_state + v_allocated - v_freed), 0))) AS live_bytes_half_width,
            round(sum(allocated)) AS allocated_bytes,
            arrayStringConcat(arraySort(groupUniqArray(5)(version)), ' ') AS versions
        FROM stack_days
        WHERE service = {service:String} AND day = {day:Date} AND version != {version:String}
            AND stack NOT IN (SELECT stack FROM stack_days WHERE service = {service:String} AND version = {version:String})
        GROUP BY stack
        ORDER BY live_bytes DESC, allocated_bytes DESC
        LIMIT {rows:UInt32}
    ) AS new
    LEFT JOIN (SELECT stack, any(frames) AS all_frames FROM stacks GROUP BY stack) AS named USING (stack)
    LEFT ARRAY JOIN all_frames AS frame, arrayEnumerate(all_frames) AS place
) AS of_frames
LEFT JOIN (SELECT frame, any(function) AS function FROM frames GROUP BY frame) AS names USING (frame)
GROUP BY stack, live_bytes, live_bytes_half_width, allocated_bytes, versions
ORDER BY live_bytes DESC, allocated_bytes DESC
