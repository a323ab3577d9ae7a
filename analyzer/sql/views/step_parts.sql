-- What each marked step of each rank is made of: its spans, and its calls by communicator and operation.
CREATE VIEW step_parts AS
SELECT rank, role, step, kind, name, count(*) AS count, sum(duration_ns) AS sum_ns, max(duration_ns) AS max_ns,
       sum(bytes) AS bytes
FROM parts
WHERE kind IN ('span', 'GPU', 'host') AND step >= 0
GROUP BY rank, role, step, kind, name;
