from megatron.core.timers import Timers

_GLOBALS = {}


def get_args():
    return _GLOBALS["args"]


def get_timers():
    return _GLOBALS["timers"]


def set_global_variables(args):
    _GLOBALS["args"] = args
    _GLOBALS["timers"] = Timers(args.timing_log_level, "minmax")
