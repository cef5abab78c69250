-- Stacks that have grown beyond chance in a day, in all services: of all that this names, 1% at most are chance (Benjamini and Hochberg).
-- The variance of growth is the smaller of two bounds: that of both ends, and that of what was allocated but not freed since. {day:Date}
SELECT service, stack, round(grown) AS growth, round(1.96 * sqrt(variance)) AS growth_half_width, p
FROM
(
    SELECT
        service,
        stack,
        grown,
        greatest(least(v_state + v_end, v_end - v_state + 2 * v_before), 1) AS variance,
        0.5 * erfc(grown / sqrt(2 * variance)) AS p,
        row_number() OVER (ORDER BY p) AS place,
        count() OVER () AS stacks
    FROM
    (
        SELECT
            service,
            stack,
            sum(allocated - freed) AS grown,
            sum(v_state) AS v_state,
            v_state + sum(v_allocated - v_freed) AS v_end,
            sum(v_lost) AS v_before
        FROM (SELECT service, stack, allocated, freed, stack_days.v_state AS v_state, v_allocated, v_freed, v_lost FROM stack_days WHERE day = {day:Date})
        GROUP BY service, stack
    )
)
WHERE p <= 0.01 * place / stacks
ORDER BY growth DESC
LIMIT 20
