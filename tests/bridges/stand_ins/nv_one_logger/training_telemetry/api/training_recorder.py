from nv_one_logger.core.attributes import Attributes
from nv_one_logger.core.event import Event
from nv_one_logger.core.exceptions import assert_that
from nv_one_logger.core.time import TracingTimestamp
from nv_one_logger.recorder.default_recorder import DefaultRecorder

from .spans import StandardTrainingJobSpanName as Name

_TIMED = (Name.TRAINING_SINGLE_ITERATION, Name.VALIDATION_SINGLE_ITERATION, Name.CHECKPOINT_SAVE_ASYNC)


class _TrainingState:
    def __init__(self):
        self.running = {}
        self.seconds = []
        self.train_iterations_start = 0
        self.completed_training_iterations_overall = 0


class TrainingRecorder(DefaultRecorder):
    def __init__(self, config, exporters, blacklist):
        super().__init__(exporters, blacklist)
        self._config = config
        self._training_state = _TrainingState()

    def _active(self, name):
        span, = self.get_active_spans_by_name(name)
        return span

    def start(self, span_name, span_attributes=None, start_event_attributes=None, start_time=None, parent_span=None):
        if span_name in _TIMED:
            assert_that(span_name in self._training_state.running, f"Timer for span {span_name} is not active.")
        return super().start(span_name=span_name, span_attributes=span_attributes,
                             start_event_attributes=start_event_attributes,
                             start_time=start_time or TracingTimestamp.now(), parent_span=parent_span)

    def stop(self, span, stop_event_attributes=None, stop_time=None):
        super().stop(span=span, stop_event_attributes=stop_event_attributes,
                     stop_time=stop_time or TracingTimestamp.now())

    def event(self, span, event):
        return super().event(span=span, event=event)

    def begin(self, name, start_time, attributes=None):
        if name in _TIMED:
            self._training_state.running[name] = start_time.perf_counter_seconds
        return self.start(span_name=name, span_attributes=attributes, start_time=start_time)

    def end(self, name, stop_time):
        begun = self._training_state.running.pop(name, None)
        if name == Name.TRAINING_SINGLE_ITERATION:
            self._count_iteration(stop_time.perf_counter_seconds - begun)
        self.stop(span=self._active(name), stop_time=stop_time)

    def tell(self, span, name, timestamp=None, **attributes):
        self.event(span, Event.create(name, Attributes(attributes), timestamp))

    def _count_iteration(self, seconds):
        state = self._training_state
        state.seconds.append(seconds)
        state.completed_training_iterations_overall += 1
        every = self._config.telemetry_config.log_every_n_train_iterations
        if state.completed_training_iterations_overall % every == 0:
            self.tell(self._active(Name.TRAINING_LOOP), "training_metrics_update",
                      train_iterations_start=state.train_iterations_start,
                      current_iteration=state.completed_training_iterations_overall - 1,
                      num_iterations=len(state.seconds),
                      avg_iteration_time_sec=sum(state.seconds) / len(state.seconds),
                      max_iteration_time_sec=max(state.seconds))

    def on_app_start(self, start_time):
        span = self.begin("application", start_time)
        tag = self._config.session_tag_or_fn
        self.tell(span, "one_logger_initialization", start_time, is_baseline_run=self._config.is_baseline_run_or_fn,
                  session_tag=tag() if callable(tag) else tag)
        return span

    def on_training_loop_start(self, train_iterations_start, start_time):
        self._training_state.train_iterations_start = train_iterations_start
        self._training_state.completed_training_iterations_overall = train_iterations_start
        started = Attributes({"train_iterations_start": train_iterations_start})
        return self.begin(Name.TRAINING_LOOP, start_time, started)

    def on_validation_end(self, stop_time):
        self.tell(self._active(Name.VALIDATION_LOOP), "validation_metrics_update", current_iteration=0,
                  avg_iteration_time_sec=0.5)
        self.end(Name.VALIDATION_LOOP, stop_time)

    def on_save_checkpoint_success(self, current_iteration, timestamp):
        self.tell(self._active("application"), "save_checkpoint_success", timestamp,
                  checkpoint_strategy=self._config.telemetry_config.save_checkpoint_strategy,
                  current_iteration=current_iteration, productive_train_iterations=current_iteration)
