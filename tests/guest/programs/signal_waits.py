"""The main thread waits for a signal, and takes the first return of that wait for the signal."""
import ctypes
import os
import signal
import sys
import threading
import time

user, scenario = sys.argv[1:]
told = []


def work():
    print("ready", flush=True)
    while not os.path.exists(os.environ["E2E_MEET"] + "/go"):
        time.sleep(0.01)
    print("work finished", flush=True)
    while True:  # the first one may come before the main thread waits
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)
        time.sleep(0.1)


if scenario == "sigwait":
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
else:
    signal.signal(signal.SIGUSR2, lambda *_: told.append(1))
assert ctypes.CDLL(user, mode=ctypes.RTLD_LOCAL).user_reduce() == 2
threading.Thread(target=work, daemon=True).start()
if scenario == "sigwait":
    told.append(signal.sigwait(signal.valid_signals()) == signal.SIGUSR2)
else:
    signal.pause()
print("main was told to stop" if told and told[0] else "main stops without being told", flush=True)
os._exit(0)
