-- Metrics of the program, step by step, joined over the ranks as the program says (reduction); where it does not say,
-- the mean of all values. Where ranks count within roles, those of one role alone.
CREATE VIEW step_metrics AS
SELECT step, ifnull(role, '') AS role, name, max(reduction) AS reduction,
       CASE max(reduction)
           WHEN 'sum' THEN sum(value)
           WHEN 'min' THEN min(value)
           WHEN 'max' THEN max(value)
           WHEN 'std' THEN std(value)
           WHEN 'last' THEN arg_max(value, realtime_ns)
           WHEN 'mean' THEN sum(value * weight) / sum(CASE WHEN value IS NOT NULL THEN weight END)
           WHEN 'none' THEN NULL
           ELSE avg(value)
       END AS value,
       count(*) AS "values", count(DISTINCT rank) AS ranks,
       min(value) AS lowest, arg_min(rank, value) AS lowest_rank,
       max(value) AS highest, arg_max(rank, value) AS highest_rank,
       rank_ranges(CASE WHEN value IS NULL THEN rank END) AS not_finite
FROM markers
WHERE marker = 'metric'
GROUP BY step, role, name;
