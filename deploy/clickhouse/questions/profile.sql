-- What of a service was live at a moment, by stack, as `ramson report 'clickhouse://HOST/ramson?service=NAME@-1h'` reads it. An empty parameter
-- chooses nothing. A day's first minutes still wait for what was live when it began: until then it is the end of the day before.
WITH
(
    SELECT toDate(max(minute) - INTERVAL 3 MINUTE)
    FROM heap
    WHERE service = {service:String} AND toUnixTimestamp(minute) <= {until:UInt32}
) AS last_day
SELECT
    live_objects,
    live_objects_variance,
    live_bytes,
    live_bytes_variance,
    arrayStringConcat(arrayMap(it -> it.2, arraySort(it -> it.1, groupArray((place, function)))), '\n') AS functions
FROM
(
    SELECT stack, live_objects, live_objects_variance, live_bytes, live_bytes_variance, frame, place
    FROM
    (
        SELECT
            stack,
            sum(n * ramson_objects(size, interval) * ramson_sign(age)) AS live_objects,
            greatest(sum(n * ramson_objects_variance(size, interval) * ramson_sign(age)), 0) AS live_objects_variance,
            sum(n * ramson_bytes(size, interval) * ramson_sign(age)) AS live_bytes,
            greatest(sum(n * ramson_bytes_variance(size, interval) * ramson_sign(age)), 0) AS live_bytes_variance
        FROM heap
        WHERE service = {service:String}
            AND toDate(minute) = last_day
            AND toUnixTimestamp(minute) <= {until:UInt32}
            AND ({version:String} = '' OR version = {version:String})
            AND process IN
            (
                SELECT process
                FROM processes FINAL
                WHERE ({host:String} = '' OR host = {host:String}) AND ({pid:String} = '' OR toString(pid) = {pid:String})
            )
        GROUP BY stack
        HAVING live_bytes >= 0.5
    ) AS live
    LEFT JOIN (SELECT stack, any(frames) AS all_frames FROM stacks GROUP BY stack) AS named USING (stack)
    LEFT ARRAY JOIN all_frames AS frame, arrayEnumerate(all_frames) AS place
) AS of_frames
LEFT JOIN (SELECT frame, any(function) AS function FROM frames GROUP BY frame) AS names USING (frame)
GROUP BY stack, live_objects, live_objects_variance, live_bytes, live_bytes_variance
FORMAT TabSeparatedWithNames
