-- What of a service is live at the end of a day, by stack, with names, leaf first. {service:String} {day:Date}
WITH
    (SELECT mapFromArrays(groupArray(frame), groupArray(function)) FROM frames) AS names
SELECT
    stack,
    arrayStringConcat(arrayMap(frame -> names[frame], any(frames)), ' < ') AS functions,
    live,
    live_half_width
FROM
(
    SELECT
        stack,
        round(sum(state + allocated - freed)) AS live,
        round(1.96 * sqrt(greatest(sum(v_state + v_allocated - v_freed), 0))) AS live_half_width
    FROM stack_days
    WHERE service = {service:String} AND day = {day:Date}
    GROUP BY stack
    ORDER BY live DESC
    LIMIT 20
) AS largest
LEFT JOIN stacks USING (stack)
GROUP BY stack, live, live_half_width
ORDER BY live DESC
