CREATE TABLE numbers (number INTEGER PRIMARY KEY, square INTEGER, text TEXT);
WITH RECURSIVE counter(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM counter WHERE number < 5000)
INSERT INTO numbers SELECT number, number * number, hex(zeroblob(number % 50)) FROM counter;
CREATE INDEX by_text ON numbers (text, square DESC);
SELECT count(*), sum(square), max(length(text)) FROM numbers;
SELECT text, group_concat(number) FROM (SELECT * FROM numbers WHERE number % 500 < 3 ORDER BY number) GROUP BY text;
WITH RECURSIVE
  x(v) AS (SELECT -2.0 UNION ALL SELECT v + 0.2 FROM x WHERE v < 1.2),
  y(v) AS (SELECT -1.0 UNION ALL SELECT v + 0.2 FROM y WHERE v < 1.0),
  m(i, cx, cy, x, y) AS (
    SELECT 0, x.v, y.v, 0.0, 0.0 FROM x, y
    UNION ALL SELECT i + 1, cx, cy, x * x - y * y + cx, 2.0 * x * y + cy FROM m WHERE x * x + y * y < 4.0 AND i < 28)
SELECT group_concat(i, ' ') FROM (SELECT max(i) AS i FROM m GROUP BY cx, cy ORDER BY cy, cx);
SELECT json_group_array(json_object('number', number)) FROM numbers WHERE number < 20;
DELETE FROM numbers WHERE number % 3 = 0;
VACUUM;
PRAGMA integrity_check;
SELECT * FROM missing;
