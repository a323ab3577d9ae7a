from .autograd.profiler import record_function
