-- Live bytes of each service at the end of a day, with their ±. {day:Date}
SELECT
    service,
    round(sum(state + allocated - freed)) AS live,
    round(1.96 * sqrt(greatest(sum(v_state + v_allocated - v_freed), 0))) AS live_half_width,
    round(sum(allocated)) AS allocated_bytes
FROM stack_days
WHERE day = {day:Date}
GROUP BY service
ORDER BY live DESC
