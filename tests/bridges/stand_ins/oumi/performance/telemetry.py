import contextlib
import time
import types


class TimerContext(contextlib.ContextDecorator):
    def __init__(self, name, measurements):
        self.name, self.measurements, self.start_time = name, measurements, None

    def __enter__(self):
        self.start_time = time.perf_counter()
        return self

    def __exit__(self, *raised):
        if self.start_time is not None:
            self.measurements.append(time.perf_counter() - self.start_time)
            self.start_time = None
        return False


class CudaTimerContext(contextlib.ContextDecorator):
    def __init__(self, name, measurements):
        self.name, self.measurements = name, measurements
        self.start_event, self.end_event = self._get_new_cuda_event(), self._get_new_cuda_event()

    def _get_new_cuda_event(self):
        import torch
        return torch.cuda.Event(enable_timing=True)

    def __enter__(self):
        self.start_event.record()
        return self

    def __exit__(self, *raised):
        import torch
        self.end_event.record()
        torch.cuda.synchronize()
        self.measurements.append(self.start_event.elapsed_time(self.end_event) / 1000)
        return False


class TelemetryTracker:
    def __init__(self):
        self.state = types.SimpleNamespace(measurements={}, cuda_measurements={}, gpu_memory=[], gpu_temperature=[])

    def timer(self, name):
        return TimerContext(name, self.state.measurements.setdefault(name, []))

    def cuda_timer(self, name):
        return CudaTimerContext(name, self.state.cuda_measurements.setdefault(name, []))

    def log_gpu_memory(self, custom_logger=None):
        import torch
        if torch.cuda.is_available():
            memory = {"allocated": torch.cuda.memory_allocated() / 1024**2,
                      "reserved": torch.cuda.memory_reserved() / 1024**2}
            (custom_logger or self.state.gpu_memory.append)(memory)

    def record_gpu_temperature(self):
        temperature = get_nvidia_gpu_temperature(0)
        self.state.gpu_temperature.append(temperature)
        return temperature

    def get_summary(self):
        def statistics(of):
            return {name: {"count": float(len(values))} for name, values in of.items()}
        return {"timers": statistics(self.state.measurements), "cuda_timers": statistics(self.state.cuda_measurements)}

    def state_dict(self):
        return dict(vars(self.state))

    def load_state_dict(self, state_dict):
        self.state = types.SimpleNamespace(**state_dict)


def get_nvidia_gpu_temperature(device):
    raise NotImplementedError(device)
