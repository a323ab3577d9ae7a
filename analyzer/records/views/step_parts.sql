-- What each step of each rank is made of: its spans, and its calls by communicator and operation; of older steps, too,
-- if the rank keeps a journal. GPU: calls that were seen to run there.
CREATE VIEW step_parts AS
SELECT rank, role, step, kind, name, count(*) AS count, sum(duration_ns) AS sum_ns, max(duration_ns) AS max_ns,
       sum(bytes) AS bytes
FROM parts
WHERE kind = 'span' AND step >= 0
GROUP BY rank, role, step, name
UNION ALL
SELECT rank, '', step, iif(calls_timed_on_gpu > 0, 'GPU', 'host'), op || ' on ' || communicator_role,
       calls, iif(calls_timed_on_gpu > 0, gpu_ns, host_ns), longest_ns, bytes
FROM step_calls
WHERE step >= 0;
