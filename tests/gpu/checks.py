"""The checks of scripts/gpu-check. Each takes the setup, returns its figures, and raises AssertionError when the
machine shows something else than it should, or Skipped when it cannot tell."""

import os
import signal
import time

import harness
from place import Skipped, expect, last_words, wait_all_say

METHODS = ("off", "events", "timing", "writes")
HOLD_KERNEL = "gpu_check_hold"
REPLAYED = 1 << 5
WARM_UPS, GRAPH_CALLS, REPLAYS = 3, 4, 4  # as in the clients
NCCL_CONF_NAME = "NCCL_GRAPH_MIXING_SUPPORT"
SETTLED_S = 1.5  # after the last call was issued: what does not move by then hangs


def collectives(calls):
    return [call for call in calls if call["seq"] is not None and call["op"] == "all_reduce"]


def expect_all_finished(calls):
    """Everything ran to its end, and the times are in order."""
    issued = [call for call in calls if call["op"] in ("all_reduce", "send", "recv")]
    for call in issued:
        expect(call["on_gpu"] == "finished",
               f"{call['op']} #{call['seq']} is not finished, but {call['on_gpu']} (its entry: {call['state']})")
        times = [call["entered_ticks"], call["gpu_started_ticks"], call["gpu_finished_ticks"]]
        known = [ticks for ticks in times if ticks]
        expect(known == sorted(known) and call["returned_ticks"] >= call["entered_ticks"],
               f"times of {call['op']} #{call['seq']} are out of order: {times}")
    return len(issued)


def answers(started):
    """What the program computed; NCCL prints its version there, too."""
    return [line for line in started.stdout.splitlines() if ": right" in line]


def check_single(setup):
    """one rank: collectives and sends to itself finish, with the same results as without the preload"""
    place = setup.place()
    figures, said = {}, None
    place.go()
    plain = place.start_client("single", preload=False)
    place.end_well([plain])
    (place.meet / "go").unlink()
    for method in METHODS[1:]:
        rank = place.start_client("single", TITANTRACE_GPU_PROGRESS=method, TITANTRACE_RUN_ID=method)
        wait_all_say([rank], "send and receive: right")
        harness.wait_for(lambda: {call["state"] for call in place.show(place.rings, "--op", "all_reduce")}
                         == {"finished"}, 5,
                         f"all calls finish with {method}")
        figures[f"calls_{method}"] = expect_all_finished(place.show(place.rings))
        expect(figures[f"calls_{method}"] == 5, f"{figures[f'calls_{method}']} calls are recorded, not 5")
        place.go()
        place.end_well([rank])
        (place.meet / "go").unlink()
        said = answers(rank)
        expect(said == answers(plain) and len(said) == 4, f"with the preload: {said}, without: {answers(plain)}")
    return figures


def run_ranks(setup, size):
    place = setup.place()
    conf = place.path / "nccl.conf"
    conf.write_text(f"{NCCL_CONF_NAME}=1\n")  # the default
    ranks = place.start_clients("ranks", size, NCCL_CONF_FILE=conf)
    wait_all_say(ranks, "done", 60)
    place.dump(ranks[0], size)
    analysis = place.analyze(place.dumps)
    expect(analysis.status == harness.HEALTHY,
           f"a healthy job, and titan-analyze says: {analysis.stdout}{analysis.stderr}")
    told = place.settings().get(NCCL_CONF_NAME)
    expect(told == [("1", list(range(size)))], f"nccl.conf sets {NCCL_CONF_NAME}, and the dumps say: {told}")
    finished = sum(expect_all_finished(place.show(place.dumps, "--rank", rank)) for rank in range(size))
    place.go()
    place.end_well(ranks)
    plain = setup.place()
    plain.go()
    bare = plain.start_clients("ranks", size, preload=False)
    plain.end_well(bare, 60)
    value = lambda started: float(started.stdout.split("ms_per_call ")[1].split()[0])
    return {"calls_finished": finished, "ms_per_call": value(ranks[0]), "ms_per_call_without_preload": value(bare[0])}


def check_ranks(setup):
    """several ranks on the machine's GPUs: right results, and titan-analyze finds nothing"""
    reasons = []
    for way in setup.ways:
        setup.way = way
        try:
            return {"ranks": setup.ranks, "way": way[0], **run_ranks(setup, setup.ranks), "tried_before": reasons}
        except AssertionError as why:
            reasons.append(f"{way[0]}: {why}")
            setup.way = None
            setup.end_programs()
    setup.no_way = "several ranks do not run on this machine (see the check `ranks`)"
    raise AssertionError("; ".join(reasons))


def expect_verdict(analysis, kind, ranks):
    verdict = analysis.json and analysis.json["verdict"]
    expect(verdict and (verdict["kind"], verdict["ranks"]) == (kind, ranks),
           f"the verdict is {verdict and (verdict['kind'], verdict['ranks'])}, not {(kind, ranks)}: "
           f"{verdict['summary'] if verdict else analysis.stderr.strip()}")
    return analysis.json["findings"][0]


def dump_when_settled(place, ranks):
    """The dump of a job whose ranks have all issued what they will."""
    wait_all_say(ranks, "issued")
    time.sleep(SETTLED_S)
    place.dump(ranks[0], len(ranks))
    # A dump on request tells of a wait of seconds that it is no hang yet: so long these checks need not wait.
    return place.analyze(place.dumps, "--hang-after-s", "1")


def release(place, ranks):
    """Nothing was harmed: the job comes to its end with right results."""
    place.go("release")
    place.end_well(ranks)


def check_blocked(setup):
    """a kernel keeps one rank's stream: the verdict names the kernel and the rank, with every progress method"""
    size = setup.ranks if setup.way else 1
    victim, figures = size - 1, {"ranks": size}
    for method in METHODS[1:]:
        place = setup.place()
        ranks = place.start_clients("blocked", size, GPU_CHECK_VICTIM=victim, GPU_CHECK_BOUND_S=30,
                                    TITANTRACE_GPU_PROGRESS=method)
        finding = expect_verdict(dump_when_settled(place, ranks), "gpu_queue_blocked", [victim])
        expect(HOLD_KERNEL in str(finding),
               f"{method}: the finding does not name {HOLD_KERNEL}: {finding['summary']} {finding['evidence']}")
        release(place, ranks)
        figures[f"confidence_{method}"] = finding["confidence"]
    return {**figures, "summary": finding["summary"]}


def check_missing(setup):
    """a rank does not join: it is named, and the others' collectives have started on the GPU"""
    setup.need_ranks()
    victim, figures = setup.ranks - 1, {"ranks": setup.ranks}
    for method in METHODS[1:]:
        place = setup.place()
        ranks = place.start_clients("missing", setup.ranks, GPU_CHECK_VICTIM=victim, TITANTRACE_GPU_PROGRESS=method)
        finding = expect_verdict(dump_when_settled(place, ranks), "rank_not_arrived", [victim])
        for rank in range(setup.ranks):
            states = [call["on_gpu"] for call in collectives(place.show(place.dumps, "--rank", rank))]
            expected = ["finished"] * WARM_UPS + ["started"] * (rank != victim)
            expect(states == expected, f"{method}: rank {rank}'s all_reduces are {states}, not {expected}")
        release(place, ranks)
        figures[f"confidence_{method}"] = finding["confidence"]
    return {**figures, "summary": finding["summary"]}


def check_cupti(setup):
    """CUPTI names the kernel that keeps a stream, as wrappers do"""
    place = setup.place()
    rank = place.start_client("blocked", GPU_CHECK_VICTIM=0, GPU_CHECK_BOUND_S=30, TITANTRACE_CUDA="cupti")
    analysis = dump_when_settled(place, [rank])
    if "CUDA calls are interposed instead" in rank.stderr:
        release(place, [rank])
        raise Skipped(last_words(rank))
    finding = expect_verdict(analysis, "gpu_queue_blocked", [0])
    expect(HOLD_KERNEL in str(finding), f"the finding does not name {HOLD_KERNEL}: {finding['summary']}")
    kernels = [work["name"] for work in place.show(place.dumps, "--work") if work["work"] == "kernel"]
    release(place, [rank])
    return {"kernels": kernels, "confidence": finding["confidence"]}


def check_plugin(setup):
    """NCCL's profiler plugin interface tells how far the channels of each collective are, and what the proxies do"""
    setup.need_ranks()
    place, victim = setup.place(), setup.ranks - 1
    ranks = place.start_clients("missing", setup.ranks, GPU_CHECK_VICTIM=victim, TITANTRACE_NCCL_PLUGIN="progress")
    finding = expect_verdict(dump_when_settled(place, ranks), "rank_not_arrived", [victim])
    calls = collectives(place.show(place.dumps, "--rank", 0))
    chosen = sorted({f"{call['algorithm']} {call['protocol']}" for call in calls})
    channels = [(call["channels"], call["channels_started"], call["channels_finished"]) for call in calls]
    roles = [row["role"] for row in place.show(place.dumps, "--channels")]
    release(place, ranks)
    expect(all(of > 0 and of == finished for of, _, finished in channels[:WARM_UPS]) and channels[-1][2] == 0,
           f"channels (of the call, started, finished) of rank 0's all_reduces: {channels}")
    expect(all(len(words.split()) == 2 for words in chosen), f"algorithms and protocols of rank 0's: {chosen}")
    return {"channels": channels, "chosen": chosen, "rows": {role: roles.count(role) for role in sorted(set(roles))},
            "confidence": finding["confidence"]}


def replays_of(place, rank):
    return [call for call in collectives(place.show(place.dumps, "--rank", rank)) if call["flags"] & REPLAYED]


def check_graphs(setup):
    """collectives in replayed CUDA graphs (with a forked stream) are numbered and finish; a skipped replay is named"""
    size = setup.ranks if setup.way else 1
    place = setup.place()
    ranks = place.start_clients("graphs", size)
    wait_all_say(ranks, "done")
    place.dump(ranks[0], size)
    for rank in range(size):
        calls = collectives(place.show(place.dumps, "--rank", rank))
        expected = list(range(GRAPH_CALLS * REPLAYS + 2))  # one eager call before the replays, one after
        numbers = [call["seq"] for call in calls]
        expect(numbers == expected, f"rank {rank}'s all_reduces are numbered {numbers}, not 0 to {expected[-1]}")
        expect_all_finished(calls)
        replayed = [call["seq"] for call in replays_of(place, rank)]
        expect(replayed == expected[1:-1], f"replayed are {replayed}, not {expected[1:-1]}")
    place.go()
    place.end_well(ranks)
    figures = {"ranks": size, "replayed_calls": size * GRAPH_CALLS * REPLAYS}
    return {**figures, **skipped_replay(setup)} if size > 1 else figures


def skipped_replay(setup):
    place, victim = setup.place(), setup.ranks - 1
    ranks = place.start_clients("graphs", setup.ranks, GPU_CHECK_VICTIM=victim)
    finding = expect_verdict(dump_when_settled(place, ranks), "rank_not_arrived", [victim])
    place.go("release")
    wait_all_say(ranks, "done")
    place.go()
    place.end_well(ranks)
    return {"summary": finding["summary"], "confidence": finding["confidence"]}


def check_capture_safety(setup):
    """a global-mode capture beside collectives is not spoiled by us, whatever the progress method"""
    calls = 100 if setup.simulated else 400
    figures = {}
    for method in (None, *METHODS):
        place = setup.place()
        settings = {"TITANTRACE_GPU_PROGRESS": method} if method else {"preload": False}
        rank = place.start_client("capture-safety", GPU_CHECK_CALLS=calls, **settings)
        rank.wait(40)
        said = dict(line.split() for line in rank.stdout.splitlines() if line.startswith(("captures ", "spoiled ")))
        name = method or "without_preload"
        if method is None and (rank.status != 0 or said.get("spoiled") != "0"):
            raise Skipped(f"without us such a capture fails, too: {last_words(rank)}")
        expect(rank.status == 0, f"{name}: ended with {rank.status}: {last_words(rank)}")
        expect(said["spoiled"] == "0" and int(said["captures"]) > 3,
               f"{name}: {said['spoiled']} of {said['captures']} captures failed")
        figures[f"captures_{name}"] = int(said["captures"])
    return figures


def ring_states(place, rank):
    return [call["on_gpu"] for call in collectives(place.show(place.rings, "--rank", rank))]


def kill_and_read(place, ranks, victim, expected):
    """The states of the victim's all_reduces in its ring, before and after kill -9."""
    wait_all_say(ranks, "issued")
    time.sleep(SETTLED_S / 3)
    before = ring_states(place, victim)
    os.kill(ranks[victim].pid, signal.SIGKILL)
    ranks[victim].wait(30)
    after = ring_states(place, victim)
    expect(before == expected, f"before the kill, rank {victim}'s all_reduces are {before}, not {expected}")
    expect(after == expected, f"after kill -9, the ring of rank {victim} says {after}, not {expected}")


def check_kill(setup):
    """after kill -9 a rank's ring still tells what its GPU finished, started and never came to"""
    place = setup.place()
    kill_and_read(place, place.start_clients("blocked", 1, GPU_CHECK_VICTIM=0), 0,
                  ["finished"] * WARM_UPS + ["not_reached"])
    figures = {"queued": "not_reached"}
    if setup.way:
        place, size = setup.place(), setup.ranks
        kill_and_read(place, place.start_clients("missing", size, GPU_CHECK_VICTIM=0), size - 1,
                      ["finished"] * WARM_UPS + ["started"])
        figures["running"] = "started"
    return figures
