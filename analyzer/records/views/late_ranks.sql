-- How much later than the first rank each rank came to the calls of a step, on average, by the clocks of the hosts as
-- they are.
CREATE VIEW late_ranks AS
SELECT rank, step, communicator, communicator_name, op, calls,
       mean_entered_realtime_ns - min(mean_entered_realtime_ns) OVER same AS late_ns, count(*) OVER same AS ranks
FROM step_calls
WHERE communicator IS NOT NULL AND op NOT IN ('send', 'recv')
WINDOW same AS (PARTITION BY communicator, op, step, calls);
