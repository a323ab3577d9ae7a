"""Sends and receives: left out, to another, of other size, in other order."""

import jobs
from case import Case, Retry
from faults.table import PIPES, SHIFTED, fault
from truth import ABSENT, CYCLE, Cause, hang


def sends(direction: str):
    return lambda op: op.messages is not None and any(message[0] == direction for message in op.messages)


def change_message(case: Case, direction: str, change):
    """Edits one message of one rank. Says rank, message and operation."""
    case.use(*PIPES)
    rank = case.rank()
    place = case.place(rank, lambda op: sends(direction)(op) and op.group.desc.startswith("PIPELINE"))
    op = case.ops(rank)[place]
    chosen = case.rng.choice([message for message in op.messages if message[0] == direction])
    messages = []
    for message in op.messages:
        messages += change(message, op) if message is chosen else [message]
    if messages:
        case.ops(rank)[place] = op.copy(messages=messages)
    else:
        del case.ops(rank)[place]
    return rank, chosen


@fault
def send_left_out(case: Case):
    rank, message = change_message(case, "send", lambda message, op: [])
    case.truth = hang(SHIFTED, [rank], among_without_history=[rank, message[1]])


@fault
def receive_left_out(case: Case):
    rank, message = change_message(case, "recv", lambda message, op: [])
    case.truth = hang(SHIFTED, [rank], among_without_history=[rank, message[1]])


@fault
def send_to_the_wrong_peer(case: Case):
    def other(message, op):
        rest = [r for r in op.group.ranks if r not in (message[1], sender[0])]
        if not rest:
            raise Retry
        return [(message[0], case.rng.choice(rest), message[2])]
    sender = [None]
    case.use("megatron_deep")
    rank = sender[0] = case.rank()
    place = case.place(rank, sends("send"))
    op = case.ops(rank)[place]
    chosen = next(message for message in op.messages if message[0] == "send")
    case.ops(rank)[place] = op.copy(messages=[m for message in op.messages
                                              for m in (other(message, op) if message is chosen else [message])])
    case.truth = hang(ABSENT | CYCLE, [rank])


@fault
def pair_of_other_size(case: Case):
    rank, message = change_message(case, "send", lambda message, op: [(message[0], message[1], message[2] // 2)])
    case.truth = hang({"size_mismatch", "p2p_unmatched"}, [rank],
                      weaker=[Cause({"size_mismatch", "p2p_unmatched"}, [rank, message[1]])])


@fault
def two_messages_swapped(case: Case):
    """One rank's messages of a step in another order: a cycle of waits."""
    case.job_name = "megatron_deep"
    case.job = jobs.megatron(case.rng, case.rng.choice([1, 2]), 4, 1, steps=case.steps, batched=False, syncs=True)
    rank = case.rank()
    ops = case.ops(rank)
    single = case.places(rank, lambda op: op.kind == "p2p")
    pairs = [(i, j) for i, j in zip(single, single[1:]) if ops[i].messages[0][:2] != ops[j].messages[0][:2]]
    if not pairs:
        raise Retry
    i, j = case.rng.choice(pairs)
    ops[i], ops[j] = ops[j].copy(wait=True), ops[i].copy(wait=True)
    case.truth = hang(CYCLE | ABSENT, [rank])
