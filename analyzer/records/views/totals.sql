-- What takes the time of a run, as `titan-analyze summary` sums it up: each step, span, call and metric over all ranks;
-- calls that only a journal has are in step_calls.
CREATE VIEW totals AS
SELECT kind, role, name, count(*) AS count, count(DISTINCT rank) AS ranks,
       sum(duration_ns) AS sum_ns, avg(duration_ns) AS mean_ns, std(duration_ns) AS std_ns,
       quantile(duration_ns, 0.5) AS p50_ns, quantile(duration_ns, 0.99) AS p99_ns, max(duration_ns) AS max_ns,
       arg_max(rank, duration_ns) AS max_rank, sum(bytes) AS bytes,
       avg(value) AS mean_value, min(value) AS min_value, max(value) AS max_value
FROM parts
GROUP BY kind, role, name;
