-- Processes of a service, and what was live in each at the end of a day.
SELECT
    host,
    pid,
    version,
    round(live) AS live_bytes,
    round(1.96 * sqrt(variance)) AS live_bytes_half_width,
    processes.started AS started
FROM
(
    SELECT
        process,
        sum(n * ramson_bytes(size, interval) * ramson_sign(age)) AS live,
        greatest(sum(n * ramson_bytes_variance(size, interval) * ramson_sign(age)), 0) AS variance
    FROM heap
    WHERE service = {service:String} AND toDate(minute) = {day:Date}
    GROUP BY process
    HAVING live >= 0.5
) AS of_processes
INNER JOIN (SELECT * FROM processes FINAL) AS processes USING (process)
ORDER BY live DESC
LIMIT {rows:UInt32}
