-- Processes of a service whose live bytes differ from those of its others: by more than 3.5 times the usual difference from the median
-- (the median one, as a normal distribution's σ), and by more than chance.
WITH of_processes AS
(
    SELECT
        process,
        sum(n * ramson_bytes(size, interval) * ramson_sign(age)) AS live,
        greatest(sum(n * ramson_bytes_variance(size, interval) * ramson_sign(age)), 0) AS variance
    FROM heap
    WHERE service = {service:String} AND toDate(minute) = {day:Date}
    GROUP BY process
    HAVING live >= 0.5
),
(SELECT median(live) FROM of_processes) AS middle,
(SELECT median(abs(live - middle)) FROM of_processes) AS usual
SELECT
    host,
    pid,
    version,
    round(live) AS live_bytes,
    round(1.96 * sqrt(variance)) AS live_bytes_half_width,
    round(middle) AS median_bytes,
    processes.started AS started
FROM of_processes
INNER JOIN (SELECT * FROM processes FINAL) AS processes USING (process)
WHERE abs(live - middle) > 3.5 * usual / 0.6745 AND abs(live - middle) > 1.96 * sqrt(variance)
ORDER BY abs(live - middle) DESC
LIMIT {rows:UInt32}
