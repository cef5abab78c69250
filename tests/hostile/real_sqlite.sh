#!/bin/sh
# SQLite: a recursive query, an index, a join, a sort that spills, a transaction rolled back, on a database file.
# recorded: sqlite3
exec sqlite3 database << 'END'
.bail on
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
  insert into t select i, printf('%08d', i * 7919 % 50000), i / 3.0 from n;
create index by_b on t(b);
select count(*), sum(a), max(b), round(sum(c)) from t;
select count(*) from t x join t y on x.b = printf('%08d', y.a);
begin; delete from t where a % 2; rollback;
select group_concat(b) from (select b from t order by c desc, b limit 20);
vacuum; pragma integrity_check;
END
