"""A stand-in for opentelemetry-sdk 1.45 and opentelemetry-instrumentation: the names, the classes and the hooks that a
bridge and its test's program meet, in few lines."""
