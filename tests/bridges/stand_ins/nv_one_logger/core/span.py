import uuid

from .attributes import Attributes
from .event import Event


class Span:
    def __init__(self, name, parent_span, attributes, start_attributes, start_time):
        self.id = uuid.uuid4()
        self.name = name
        self.parent_span = parent_span
        self.events = [Event.create("span_start", start_attributes, start_time)]
        self.stop_event = None
        self.updated_attributes = Attributes()
        self._initial = Attributes() if attributes is None else attributes

    @property
    def name_str(self):
        return str(self.name)

    @property
    def start_event(self):
        return self.events[0]

    @property
    def attributes(self):
        merged = Attributes()
        merged.update(self._initial)
        merged.update(self.updated_attributes)
        return merged

    @property
    def active(self):
        return self.stop_event is None

    def add_attribute(self, name, value):
        self.updated_attributes.add(name, value)

    def add_attributes(self, attributes):
        self.updated_attributes.update(attributes)

    def stop(self, attributes, stop_time):
        self.stop_event = Event.create("span_stop", attributes, stop_time)
        self.events.append(self.stop_event)
        took = self.stop_event.timestamp.perf_counter_seconds - self.start_event.timestamp.perf_counter_seconds
        self.add_attribute("duration_msec", int(took * 1000))
