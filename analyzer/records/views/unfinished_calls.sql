-- Calls that have not ended: where a hang shows, rank by rank.
CREATE VIEW unfinished_calls AS
SELECT rank, communicator, communicator_name, seq, op, peer, state, progress, on_gpu, step, span,
      entered_realtime_ns, ticket
FROM calls
WHERE progress <> 'completed' AND result <= 0 AND state NOT IN ('captured', 'returned');
