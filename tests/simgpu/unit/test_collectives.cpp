// Data movement, groups and point-to-point.
#include "node.h"

using namespace simgpu_test;

namespace {

constexpr int kRanks = 3;

struct Grid {
    std::vector<std::vector<int>> rows;
    Grid(size_t width, int base) : rows(kRanks, std::vector<int>(width)) {
        for (size_t r = 0; r < kRanks; ++r) {
            for (size_t i = 0; i < width; ++i) {
                rows[r][i] = base ? base * static_cast<int>(r + 1) + static_cast<int>(i) : 0;
            }
        }
    }
    int* operator[](int rank) { return rows[static_cast<size_t>(rank)].data(); }
};

}  // namespace

TEST_CASE("broadcast, reduce, all-gather, all-to-all, gather and scatter, plain and with a config") {
    Node node(kRanks);
    Grid in(6, 100), out(6, 0);
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

    node.all([&](int r, ncclComm_t c, cudaStream_t s) { return ncclBroadcast(in[r], out[r], 6, ncclInt, 2, c, s); });
    node.sync();
    CHECK(out.rows[0] == in.rows[2]);
    node.all([&](int r, ncclComm_t c, cudaStream_t s) { return ncclBcast(in[r], 0, ncclInt, 0, c, s); });
    node.all([&](int r, ncclComm_t c, cudaStream_t s) {
        return ncclReduceConfig(in[r], out[r], 6, ncclInt, ncclSum, 1, c, s, &config);
    });
    node.sync();
    CHECK(out.rows[1] == std::vector<int>{600, 603, 606, 609, 612, 615});
    CHECK(out.rows[0] == in.rows[2]);  // not the root: untouched
    node.all([&](int r, ncclComm_t c, cudaStream_t s) { return ncclAllGather(in[r], out[r], 2, ncclInt, c, s); });
    node.sync();
    CHECK(out.rows[0] == std::vector<int>{100, 101, 200, 201, 300, 301});
    node.all([&](int r, ncclComm_t c, cudaStream_t s) {
        return ncclAlltoAllConfig(in[r], out[r], 2, ncclInt, c, s, &config);
    });
    node.sync();
    CHECK(out.rows[1] == std::vector<int>{102, 103, 202, 203, 302, 303});
    node.all([&](int r, ncclComm_t c, cudaStream_t s) { return ncclGather(in[r], out[r], 2, ncclInt, 2, c, s); });
    node.sync();
    CHECK(out.rows[2] == std::vector<int>{100, 101, 200, 201, 300, 301});
    node.all([&](int r, ncclComm_t c, cudaStream_t s) { return ncclScatter(in[r], out[r], 2, ncclInt, 0, c, s); });
    node.sync();
    CHECK(out[2][0] == 104);
    config.magic = 0;
    CHECK(ncclAllGatherConfig(in[0], out[0], 2, ncclInt, node.comms[0], node.streams[0], &config) ==
          ncclInvalidArgument);
}

TEST_CASE("nothing of a group starts before its outermost end") {
    Node node(kRanks);
    Grid data(1, 1);
    ncclGroupStart();
    node.all([&](int r, ncclComm_t c, cudaStream_t s) {
        return ncclAllReduce(data[r], data[r], 1, ncclInt, ncclSum, c, s);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(data[0][0] == 1);
    CHECK(ncclGroupEnd() == ncclSuccess);
    node.sync();
    CHECK(data[0][0] == 6);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("a bad call spoils its group, which launches nothing") {
    Node node(kRanks);
    Grid data(1, 1);
    ncclGroupStart();
    CHECK(ncclAllReduce(data[0], data[0], 1, ncclInt, ncclSum, node.comms[0], node.streams[0]) == ncclSuccess);
    CHECK(ncclBroadcast(data[0], data[0], 1, ncclInt, 99, node.comms[0], node.streams[0]) == ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
    CHECK(node.idle(0));
}

TEST_CASE("send and receive: a ring in one group, several messages in order, longer than a mailbox") {
    Node node(kRanks);
    Grid in(20000, 7), out(20000, 0);
    node.all([&](int r, ncclComm_t c, cudaStream_t s) {
        const int next = (r + 1) % kRanks, before = (r + kRanks - 1) % kRanks;
        ncclSend(in[r], 19000, ncclInt, next, c, s);
        ncclSend(in[r] + 19000, 1000, ncclInt, next, c, s);
        ncclRecv(out[r], 19000, ncclInt, before, c, s);
        return ncclRecv(out[r] + 19000, 1000, ncclInt, before, c, s);
    });
    node.sync();
    for (size_t r = 0; r < kRanks; ++r) {
        CHECK(out.rows[r] == in.rows[(r + kRanks - 1) % kRanks]);
    }
}

TEST_CASE("a send waits for its receive, and both for equal sizes") {
    Node node(2);
    int data[4] = {1, 2, 3, 4};
    REQUIRE(ncclSend(data, 1, ncclInt, 1, node.comms[0], node.streams[0]) == ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK_FALSE(node.idle(0));
    REQUIRE(ncclRecv(data + 2, 1, ncclInt, 0, node.comms[1], node.streams[1]) == ncclSuccess);
    node.sync();
    CHECK(data[2] == 1);
    ncclSend(data, 1, ncclInt, 1, node.comms[0], node.streams[0]);
    ncclRecv(data + 2, 2, ncclInt, 0, node.comms[1], node.streams[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK_FALSE(node.idle(1));
    node.abort();
    node.sync();
}

TEST_CASE("operations of one communicator keep their order across streams") {
    Node node(2);
    cudaStream_t other[2];
    float data[2] = {1, 1};
    for (int r = 0; r < 2; ++r) {
        cudaSetDevice(r);
        cudaStreamCreateWithFlags(&other[r], cudaStreamNonBlocking);
        simgpu_launch_spin(20'000'000, node.streams[static_cast<size_t>(r)]);
        simgpu_launch_add(&data[r], 1, 1, node.streams[static_cast<size_t>(r)]);
    }
    node.all([&](int r, ncclComm_t c, cudaStream_t s) {
        return ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclSum, c, s);
    });
    node.all([&](int r, ncclComm_t c, cudaStream_t) {
        return ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclProd, c, other[r]);
    });
    for (cudaStream_t stream : other) {
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    }
    CHECK(data[0] == 16);
    CHECK(data[1] == 16);
}

TEST_CASE("one-sided: put into a window, signal, wait") {
    Node node(2);
    std::vector<int> window(16, 0), from = {5, 6, 7};
    ncclWindow_t handles[2];
    int unused[4] = {};
    REQUIRE(ncclCommWindowRegister(node.comms[0], unused, sizeof(unused), &handles[0], 0) == ncclSuccess);
    REQUIRE(ncclCommWindowRegister(node.comms[1], window.data(), 64, &handles[1], 0) == ncclSuccess);
    CHECK(ncclPutSignal(from.data(), 3, ncclInt, 1, handles[0], 8, 0, 0, 0, node.comms[0], node.streams[0]) ==
          ncclSuccess);
    CHECK(ncclSignal(1, 0, 0, 0, node.comms[0], node.streams[0]) == ncclSuccess);
    ncclWaitSignalDesc_t wait = {2, 0, 0, 0};
    CHECK(ncclWaitSignal(1, &wait, node.comms[1], node.streams[1]) == ncclSuccess);
    node.sync();
    CHECK(window[2] == 5);
    CHECK(window[4] == 7);
    void* user = nullptr;
    CHECK(ncclWinGetUserPtr(node.comms[1], handles[1], &user) == ncclSuccess);
    CHECK(user == window.data());
}
