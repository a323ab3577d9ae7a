// Two and more ranks whose sends and receives do not meet, and groups that do.
#include "client.h"

using client::Rank;

namespace {

constexpr size_t kCount = 1024;

int next(const Rank& r) { return (r.rank + 1) % r.size; }
int before(const Rank& r) { return (r.rank + r.size - 1) % r.size; }

// Everyone sends to the right before receiving from the left: nobody's send ends.
int cycle() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    NCCL(ncclSend(r.send, kCount, ncclFloat32, next(r), r.comm, r.stream));
    NCCL(ncclRecv(r.receive, kCount, ncclFloat32, before(r), r.comm, r.stream));
    r.sync();
    return 0;
}

// The same, grouped: it ends.
int ring() {
    Rank r;
    r.join();
    NCCL(ncclGroupStart());
    NCCL(ncclSend(r.send, kCount, ncclFloat32, next(r), r.comm, r.stream));
    NCCL(ncclRecv(r.receive, kCount, ncclFloat32, before(r), r.comm, r.stream));
    NCCL(ncclGroupEnd());
    r.sync();
    r.reduce_and_sync();
    client::say("done");
    client::await("go");
    r.leave();
    return 0;
}

// The last rank never takes what rank 0 sends, and waits for something else in its own code.
int no_receive() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    if (r.rank == 0) {
        NCCL(ncclSend(r.send, kCount, ncclFloat32, r.size - 1, r.comm, r.stream));
        r.sync();
    }
    client::await("never");
    return 0;
}

// Both halves are there, but not of one size.
int other_size() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    if (r.rank == 0) {
        NCCL(ncclSend(r.send, kCount, ncclFloat32, 1, r.comm, r.stream));
    } else if (r.rank == 1) {
        NCCL(ncclRecv(r.receive, kCount / 2, ncclFloat32, 0, r.comm, r.stream));
    }
    r.sync();
    client::await("never");
    return 0;
}

// Rank 1 waits for one signal more than rank 0 sends.
int no_signal() {
    Rank r;
    r.join();
    for (int round = 0; round < 2; ++round) {
        r.reduce_and_sync();
        if (r.rank == 0 && round == 0) {
            NCCL(ncclSignal(1, 0, 0, 0, r.comm, r.stream));
        } else if (r.rank == 1) {
            ncclWaitSignalDesc_t wait{1, 0, 0, 0};
            NCCL(ncclWaitSignal(1, &wait, r.comm, r.stream));
        }
        r.sync();
    }
    client::await("never");
    return 0;
}

// NCCL refuses the second call of rank 0, which goes on: its third one meets the second one of the others.
int refused() {
    Rank r;
    r.join();
    for (int round = 0; round < 3; ++round) {
        const int root = r.rank == 0 && round == 1 ? r.size : 0;
        ncclBroadcast(r.send, r.receive, kCount, ncclFloat32, root, r.comm, r.stream);
        r.sync();
    }
    client::await("never");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"cycle", cycle},           {"ring", ring},
                                           {"no-receive", no_receive}, {"other-size", other_size},
                                           {"no-signal", no_signal},   {"refused", refused}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
