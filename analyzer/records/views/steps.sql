-- Steps of each rank, from one marker to the next; without markers the periods in which its calls repeat (step is -1).
CREATE VIEW steps AS
SELECT rank, role, step, begin_realtime_ns, duration_ns
FROM parts
WHERE kind = 'step';
