import dataclasses


class Value:
    def __init__(self, value, count=1.0):
        self.value, self.count = float(value), float(count)


class Mean(Value):
    @classmethod
    def from_list(cls, values):
        return cls(sum(values), len(values))

    @classmethod
    def reduce(cls, metrics):
        count = sum(metric.count for metric in metrics)
        return {"mean": sum(metric.value for metric in metrics) / count if count else float("nan")}


class Max(Value):
    @classmethod
    def reduce(cls, metrics):
        return {"max": max(metric.value for metric in metrics)}


class NoReduce(Value):
    @classmethod
    def reduce(cls, metrics):
        return {"": metrics[-1].value}


class SummaryStats(Value):
    @classmethod
    def reduce(cls, metrics):
        return {"_max": max(metric.value for metric in metrics), "_sum": sum(metric.value for metric in metrics)}


@dataclasses.dataclass
class Metric:
    key: str
    value: Value
