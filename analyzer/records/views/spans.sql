-- Spans of the program that are over.
CREATE VIEW spans AS
SELECT rank, role, step, name, phase, begin_realtime_ns, duration_ns
FROM parts
WHERE kind = 'span';
