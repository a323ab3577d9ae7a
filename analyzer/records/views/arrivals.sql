-- Collectives over the ranks that recorded them: who came last, and how long after the first, by the clocks of the
-- hosts as they are.
CREATE VIEW arrivals AS
SELECT communicator, communicator_name, seq, op, max(step) AS step, count(*) AS ranks,
       min(entered_realtime_ns) AS first_realtime_ns,
       arg_min(rank, entered_realtime_ns) AS first_rank,
       arg_max(rank, entered_realtime_ns) AS last_rank,
       max(entered_realtime_ns) - min(entered_realtime_ns) AS spread_ns
FROM calls
WHERE seq IS NOT NULL AND op NOT IN ('send', 'recv')
GROUP BY communicator, seq;
