from .attributes import Attributes
from .time import TracingTimestamp


class Event:
    def __init__(self, name, timestamp, attributes=None):
        self.name = name
        self.timestamp = timestamp
        self.attributes = Attributes() if attributes is None else attributes
        self.attributes.add("timestamp_msec", int(timestamp.seconds_since_epoch * 1000))

    @property
    def name_str(self):
        return getattr(self.name, "value", self.name)

    @classmethod
    def create(cls, name, attributes=None, timestamp=None):
        return cls(name, timestamp or TracingTimestamp.now(), attributes)
