"""What launchers and schedulers write, sound and hostile: (file name, bytes, part of what the reader must say)."""
import json

FAILURE = """[{index}]:
  time      : 2026-11-22_08:27:5{index}
  host      : node-3.example
  rank      : {rank} (local_rank: {index})
  exitcode  : {code} (pid: {pid}) {signal}
  error_file: <N/A>
  traceback : {traceback}
"""
TRACEBACK = ('Traceback (most recent call last):\n    File "train.py", line 7, in step\n'
             "      raise\n  RuntimeError: boom\n  ")


def torchrun(*failures):
    root, *others = failures
    return ("W1122 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 4710 closing signal SIGTERM\n"
            + "=" * 60 + "\ntrain.py FAILED\n" + "-" * 60 + "\nFailures:\n"
            + ("".join(others) or "  <NO_OTHER_FAILURES>\n") + "-" * 60
            + "\nRoot Cause (first observed failure):\n" + root + "=" * 60 + "\n").encode()


def error_file(**changes):
    return json.dumps({"message": {"message": "RuntimeError: boom",
                                   "extraInfo": {"py_callstack": TRACEBACK, "timestamp": "1795336072"}},
                       **changes}).encode()


def clog(*lines, version=1):
    """A log of torchcomms' hook, of rank 3 of 8."""
    return "\n".join([f"V|{version}|base_timestamp=1795336072.123", "new_comm|comm=world|rank=3|world_size=8",
                      "C1|sig|all_reduce|in_count=1024|out_count=1024|dtype=f32|red_op=sum|async_op=f|comm=world",
                      *lines]).encode()


def watchdog(rank, number, op):
    """What PyTorch's watchdog says of a call that timed out."""
    return (f"[rank{rank}]:[E810 03:04:11.061 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective "
            f"operation timeout: WorkNCCL(SeqNum={number}, OpType={op}, NumelIn=80, NumelOut=80, "
            f"Timeout(ms)=600000) ran for 600016 milliseconds before timing out.\n"
            f"[rank{rank}]:[E810 03:04:11.063 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
            f" failure detected by watchdog at work sequence id: {number} PG status: last enqueued work: {number}, "
            f"last completed work: {number - 1}\n").encode()


def witness_samples():
    killed = FAILURE.format(index=0, rank=2, code=-9, pid=4711, signal="(SIGKILL)", traceback="Signal 9")
    ended = FAILURE.format(index=1, rank=1, code=-15, pid=4710, signal="(SIGTERM)", traceback="Signal 15")
    raised = FAILURE.format(index=0, rank=2, code=1, pid=4711, signal="", traceback=TRACEBACK)
    wild = FAILURE.format(index=0, rank=99999999999, code=-99999999999, pid=-1, signal="(" * 300, traceback="x" * 17000)
    return [
        ("torchrun-killed.log", torchrun(killed, ended), "read: 2"),
        ("torchrun-raised.log", torchrun(raised), "read: 1"),
        ("torchrun-wild-numbers.log", torchrun(wild), "read: 0"),
        ("torchrun-traceback.log",
         "".join(f"[default0]:[rank2]: {line}\n" for line in TRACEBACK.splitlines()).encode() + torchrun(raised),
         "read: 1"),
        ("torchrun-wild-traceback.log",
         b"[rank99999999999]: Traceback (most recent call last):\n"
         b"[x1]:[1]:[rank2]: Traceback (most recent call last):\n  File \"\", line -1, in \n"
         + b"Traceback (most recent call last):\nx:\n" * 1000 + torchrun(raised), "read: 1"),
        ("torchrun-cut.log", torchrun(killed)[:-200], "read: "),
        ("torchrun-empty-list.log", b"Root Cause (first observed failure):\n", "read: 0"),
        ("watchdog.log", watchdog(1, 78, "BROADCAST") + watchdog(2, 78, "BROADCAST"), "read: 2"),
        ("watchdog-wild-numbers.log", watchdog(99999999999, -1, "x" * 999) + watchdog(3, 1 << 70, ""), "read: "),
        ("watchdog-cut.log", watchdog(1, 78, "BROADCAST")[:90], "read: "),
        ("watchdog-error.log",
         b"[rank1]:[E ProcessGroupNCCL.cpp:1] [PG 0 (default_pg) Rank 1] thread terminated: NCCL error: remote "
         b"process exited or there was a network error\nncclRemoteError: A call failed\nLast error:\nNET/IB : Got "
         b"completion from peer 10.0.0.5<41234> with status=12\n", "read: 1"),
        ("error-file.json", error_file(), "read: 1"),
        ("error-file-text.json", error_file(message="boom"), "read: 1"),
        ("error-file-numbers.json",
         error_file(message={"message": "x", "errorCode": -(1 << 63), "extraInfo": {"timestamp": 3}}), "read: 1"),
        ("error-file-of-lists.json", error_file(message={"message": [], "extraInfo": []}), "read: 0"),
        ("error-file-deep.json", b'{"message":' + b"[" * 5000, "read: 0"),
        ("srun.log", b"srun: error: vm: task 2: Killed\nslurmstepd-vm: error: *** STEP 2.0 ON vm CANCELLED AT "
         b"2026-11-22T09:31:44 ***\n"
                     b"srun: error: vm: tasks 0-1,3: Terminated\n", "read: 4"),
        ("srun-many-tasks.log", b"srun: error: vm: tasks 0-2147483647: Killed\n" * 64, "read: 4096"),
        ("srun-last-tasks.log", b"srun: error: vm: tasks 2147483646-2147483647: Killed\n", "read: 2"),
        ("srun-backwards.log", b"srun: error: vm: tasks 9-1,-3,: Killed\nsrun: error: : task\nsrun: error: a: task ",
         "read: 0"),
        ("oom.log", b"slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM "
         b"Killed.\n", "read: 1"),
        ("sacct.txt",
         b"JobID|State|ExitCode|NodeList\n17|FAILED|0:9|vm\n17.0|OUT_OF_MEMORY|0:125|vm\n17.1|COMPLETED|0:0|vm\n",
         "read: 2"),
        ("sacct-short-lines.txt", b"JobID|State\n|\n||||||\nx|FAILED\nFAILED\n", "read: 1"),
        ("mpirun-killed.log",
         b"mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).\n", "read: 1"),
        ("mpirun-exit.log", b"The first process to do so was:\n\n  Process name: [[8989,1],2]\n  Exit code:    3\n",
         "read: 1"),
        ("clog.log",
         clog("C1|Q|work_id=1|+0.100", "C1|S|+0.110", "C1|E|+0.120", "C1|Q|work_id=2|+0.200", "C1|S|+0.210",
              "G7|C1|Q|work_id=3|+0.300", "G7|R1|C1|S|+0.400", "WARN|post-hook missing work_id for op_id 4"),
         "read: 3"),
        ("clog-cut.log", clog("C1|Q|work_id=1|+0.100", "C1|Q|work_i"), "read: 1"),
        ("clog-of-a-newer-version.log", clog("C1|Q|work_id=1|+0.100", version=99), "read: 1"),
        ("clog-wild-numbers.log",
         clog("C1|Q|work_id=99999999999999999999|+1", "C1|Q|work_id=7|+1e999", "C99999999999999999999|sig|x|comm=a",
              "C2|sig|" + "x" * 20000, "new_comm|rank=-1|world_size=0", "C1|E|+nan", "G1|R2|", *["C1|E|+1"] * 9),
         "read: 0"),
        ("clog-many-communicators.log",
         clog(*(f"C{n}|sig|barrier|async_op=f|comm=c{n}\nC{n}|Q|work_id={n}|+1" for n in range(2, 200))), "read: 16"),
        ("not-utf-8.log", b"srun: error: \xff\xfe: task 1: Killed\n\x00\x00", "read: 1"),
        ("nothing.log", b"step 1 loss 2.0\n", "read: 0"),
    ]
