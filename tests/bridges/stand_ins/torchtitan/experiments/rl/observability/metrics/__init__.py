"""Of torchtitan's metrics for reinforcement learning: records with types, which a processor reduces."""
from .processor import MetricsProcessor  # noqa: F401
from .types import Max, Mean, Metric, NoReduce, SummaryStats  # noqa: F401
