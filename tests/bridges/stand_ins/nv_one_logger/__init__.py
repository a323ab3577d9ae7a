"""A stand-in for nv-one-logger-core and nv-one-logger-training-telemetry 2.3.1: the names, the classes and the methods
that a bridge and its test's program meet, in few lines and without pydantic."""
