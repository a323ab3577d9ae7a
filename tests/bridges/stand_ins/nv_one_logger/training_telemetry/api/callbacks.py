from nv_one_logger.core.attributes import Attributes
from nv_one_logger.core.time import TracingTimestamp

from .spans import StandardTrainingJobSpanName as Name
from .training_telemetry_provider import TrainingTelemetryProvider


def _recorder():
    return TrainingTelemetryProvider.instance().recorder


def _time(milliseconds):
    return TracingTimestamp.for_timestamp(milliseconds / 1000) if milliseconds else TracingTimestamp.now()


def _start_of(name):
    return lambda start_time_msec=None: _recorder().begin(name, _time(start_time_msec))


def _end_of(name):
    return lambda finish_time_msec=None: _recorder().end(name, _time(finish_time_msec))


on_model_init_start, on_model_init_end = _start_of(Name.MODEL_INIT), _end_of(Name.MODEL_INIT)
on_training_single_iteration_start = _start_of(Name.TRAINING_SINGLE_ITERATION)
on_training_single_iteration_end = _end_of(Name.TRAINING_SINGLE_ITERATION)
on_validation_single_iteration_start = _start_of(Name.VALIDATION_SINGLE_ITERATION)
on_validation_single_iteration_end = _end_of(Name.VALIDATION_SINGLE_ITERATION)
on_validation_start, on_train_end = _start_of(Name.VALIDATION_LOOP), _end_of(Name.TRAINING_LOOP)
on_save_checkpoint_end = _end_of(Name.CHECKPOINT_SAVE_ASYNC)


def on_app_start(start_time_msec=None):
    return _recorder().on_app_start(_time(start_time_msec))


def on_app_end(finish_time_msec=None):
    _recorder().end("application", _time(finish_time_msec))
    _recorder().close()


def on_train_start(train_iterations_start, start_time_msec=None):
    return _recorder().on_training_loop_start(train_iterations_start, _time(start_time_msec))


def on_validation_end(finish_time_msec=None):
    _recorder().on_validation_end(_time(finish_time_msec))


def on_save_checkpoint_start(global_step, start_time_msec=None):
    return _recorder().begin(Name.CHECKPOINT_SAVE_ASYNC, _time(start_time_msec),
                             Attributes({"current_iteration": global_step}))


def on_save_checkpoint_success(global_step, time_msec=None):
    _recorder().on_save_checkpoint_success(global_step, _time(time_msec))
