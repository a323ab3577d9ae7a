from contextlib import contextmanager

from . import callbacks


@contextmanager
def training_loop(train_iterations_start):
    span = callbacks.on_train_start(train_iterations_start)
    try:
        yield span
    finally:
        callbacks.on_train_end()


@contextmanager
def training_iteration():
    span = callbacks.on_training_single_iteration_start()
    try:
        yield span
    finally:
        callbacks.on_training_single_iteration_end()


@contextmanager
def validation_loop():
    span = callbacks.on_validation_start()
    try:
        yield span
    finally:
        callbacks.on_validation_end()


@contextmanager
def validation_iteration():
    span = callbacks.on_validation_single_iteration_start()
    try:
        yield span
    finally:
        callbacks.on_validation_single_iteration_end()
