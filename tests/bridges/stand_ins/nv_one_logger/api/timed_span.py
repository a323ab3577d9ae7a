from contextlib import contextmanager

from .one_logger_provider import OneLoggerProvider


def get_recorder():
    return OneLoggerProvider.instance().recorder


@contextmanager
def timed_span(name, span_attributes=None, start_event_attributes=None):
    recorder = get_recorder()
    span = recorder.start(span_name=name, span_attributes=span_attributes,
                          start_event_attributes=start_event_attributes)
    try:
        yield span
    except Exception as error:
        recorder.error(span, f"Error in {name}: ", error)
        raise error
    finally:
        recorder.stop(span)
