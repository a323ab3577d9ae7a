// Communicators: creation in all its forms, nonblocking ones, errors, abort.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "node.h"
#include "simnccl.h"

using namespace simgpu_test;

namespace {

float sum_of(ncclComm_t comm, int device, float mine) {
    cudaSetDevice(device);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    CHECK(ncclAllReduce(&mine, &mine, 1, ncclFloat, ncclSum, comm, stream) == ncclSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    cudaStreamDestroy(stream);
    return mine;
}

int rank_of(ncclComm_t comm) {
    int rank = -1;
    CHECK(ncclCommUserRank(comm, &rank) == ncclSuccess);
    return rank;
}

int size_of(ncclComm_t comm) {
    int size = -1;
    CHECK(ncclCommCount(comm, &size) == ncclSuccess);
    return size;
}

}  // namespace

TEST_CASE("init blocks until all members are there; scalable init takes several ids") {
    ncclUniqueId ids[2];
    REQUIRE(ncclGetUniqueId(&ids[0]) == ncclSuccess);
    REQUIRE(ncclGetUniqueId(&ids[1]) == ncclSuccess);
    std::atomic<int> inside{0};
    each_rank(3, [&](int r) {
        if (r == 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            CHECK(inside == 0);
        }
        ncclComm_t comm = nullptr;
        CHECK(ncclCommInitRankScalable(&comm, 3, r, 2, ids, nullptr) == ncclSuccess);
        ++inside;
        CHECK(sum_of(comm, r, 1) == 3);
        CHECK(ncclCommFinalize(comm) == ncclSuccess);
        CHECK(ncclCommDestroy(comm) == ncclSuccess);
    });
}

TEST_CASE("split by colour and key, several times, with members that take no part") {
    Node node(4);
    each_rank(4, [&](int r) {
        ncclComm_t parent = node.comms[static_cast<size_t>(r)];
        ncclComm_t child = parent, second = nullptr;
        CHECK(ncclCommSplit(parent, r == 3 ? NCCL_SPLIT_NOCOLOR : r % 2, -r, &child, nullptr) == ncclSuccess);
        CHECK((child == nullptr) == (r == 3));
        if (r == 0) {
            CHECK(rank_of(child) == 1);  // keys are negative: the order is reversed
        }
        CHECK(ncclCommSplit(parent, 0, 0, &second, nullptr) == ncclSuccess);
        CHECK(rank_of(second) == r);
        CHECK(sum_of(second, r, static_cast<float>(r)) == 6);
        if (child) {
            CHECK(sum_of(child, r, static_cast<float>(r)) == (r == 1 ? 1 : 2));
            CHECK(ncclCommDestroy(child) == ncclSuccess);
        }
        CHECK(ncclCommDestroy(second) == ncclSuccess);
    });
}

TEST_CASE("shrink leaves out ranks that need not call; with the abort flag it ends what hangs") {
    Node node(3);
    float data[3] = {1, 2, 4};
    for (int r : {0, 2}) {
        const auto at = static_cast<size_t>(r);
        REQUIRE(ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclSum, node.comms[at], node.streams[at]) ==
                ncclSuccess);
    }
    int excluded[] = {1};
    each_rank(3, [&](int r) {
        ncclComm_t child = nullptr;
        ncclComm_t parent = node.comms[static_cast<size_t>(r)];
        if (r == 1) {
            CHECK(ncclCommShrink(parent, excluded, 1, &child, nullptr, 0) == ncclInvalidArgument);
            return;
        }
        CHECK(ncclCommShrink(parent, excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess);
        CHECK(size_of(child) == 2);
        CHECK(rank_of(child) == (r == 2));
        CHECK(sum_of(child, r, data[r]) == 5);
        CHECK(ncclCommDestroy(child) == ncclSuccess);
    });
    node.sync();
}

TEST_CASE("grow adds ranks to a communicator") {
    Node node(2);
    ncclUniqueId id;
    REQUIRE(ncclCommGetUniqueId(node.comms[0], &id) == ncclSuccess);
    each_rank(3, [&](int r) {
        ncclComm_t grown = nullptr;
        const ncclResult_t result =
            r == 2 ? ncclCommGrow(nullptr, 3, &id, 2, &grown, nullptr)
                   : ncclCommGrow(node.comms[static_cast<size_t>(r)], 3, r == 0 ? &id : nullptr, -1, &grown, nullptr);
        CHECK(result == ncclSuccess);
        CHECK(size_of(grown) == 3);
        CHECK(rank_of(grown) == r);
        CHECK(sum_of(grown, r, static_cast<float>(r)) == 3);
        CHECK(ncclCommDestroy(grown) == ncclSuccess);
    });
}

TEST_CASE("nonblocking communicators are in progress until their members met") {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    cudaSetDevice(0);
    ncclComm_t first = nullptr, second = nullptr, child = nullptr;
    CHECK(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
    REQUIRE(first != nullptr);  // early
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(first, &state) == ncclSuccess);
    CHECK(state == ncclInProgress);
    int rank;
    CHECK(ncclCommUserRank(first, &rank) == ncclInvalidArgument);
    cudaSetDevice(1);
    CHECK(ncclCommInitRankConfig(&second, 2, id, 1, &config) == ncclInProgress);
    const auto settled = [&](ncclComm_t comm) {
        return eventually([&] { return ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess; });
    };
    REQUIRE(settled(first));
    REQUIRE(settled(second));

    ncclComm_t other = nullptr;
    CHECK(ncclCommSplit(first, 0, 0, &child, nullptr) == ncclInProgress);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(child == nullptr);  // not before the split is complete
    CHECK(ncclCommSplit(second, 0, 0, &other, nullptr) == ncclInProgress);
    REQUIRE(settled(first));
    REQUIRE(settled(second));
    CHECK(child != nullptr);
    CHECK(ncclCommFinalize(first) == ncclInProgress);
    CHECK(settled(first));
    for (ncclComm_t comm : {child, other, first, second}) {
        CHECK(ncclCommDestroy(comm) == ncclSuccess);
    }
}

TEST_CASE("a member that waits for others in a nonblocking init can be aborted") {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    cudaSetDevice(0);
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
    CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("members that disagree hang, and abort ends it") {
    struct Case {
        const char* what;
        std::function<ncclResult_t(void*, ncclComm_t, cudaStream_t)> odd;
    };
    const Case cases[] = {
        {"another operation",
         [](void* d, ncclComm_t c, cudaStream_t s) { return ncclBroadcast(d, d, 1, ncclInt, 0, c, s); }},
        {"another count",
         [](void* d, ncclComm_t c, cudaStream_t s) { return ncclAllReduce(d, d, 2, ncclInt, ncclSum, c, s); }},
        {"another type",
         [](void* d, ncclComm_t c, cudaStream_t s) { return ncclAllReduce(d, d, 1, ncclInt64, ncclSum, c, s); }},
        {"no call at all", [](void*, ncclComm_t, cudaStream_t) { return ncclSuccess; }},
    };
    for (const Case& one : cases) {
        CAPTURE(one.what);
        Node node(2);
        int64_t data[2][4] = {};
        CHECK(ncclAllReduce(data[0], data[0], 1, ncclInt, ncclSum, node.comms[0], node.streams[0]) == ncclSuccess);
        CHECK(one.odd(data[1], node.comms[1], node.streams[1]) == ncclSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        CHECK_FALSE(node.idle(0));
        node.abort();
        node.sync();
    }
}

TEST_CASE("errors on demand: an operation that never finishes anywhere, an asynchronous error") {
    Node node(2);
    int data[2] = {};
    REQUIRE(simgpuNcclStuckNext(node.comms[1]) == ncclSuccess);
    node.all([&](int r, ncclComm_t c, cudaStream_t s) {
        return ncclAllReduce(&data[r], &data[r], 1, ncclInt, ncclSum, c, s);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK_FALSE(node.idle(0));
    CHECK_FALSE(node.idle(1));
    ncclResult_t state;
    REQUIRE(simgpuNcclSetAsyncError(node.comms[0], ncclRemoteError) == ncclSuccess);
    CHECK(ncclCommGetAsyncError(node.comms[0], &state) == ncclSuccess);
    CHECK(state == ncclRemoteError);
    node.abort();
    node.sync();
}

TEST_CASE("revoke stops operations; only management is allowed afterwards") {
    Node node(2);
    int data = 0;
    ncclAllReduce(&data, &data, 1, ncclInt, ncclSum, node.comms[0], node.streams[0]);
    CHECK(ncclCommRevoke(node.comms[0], 1) == ncclInvalidArgument);
    CHECK(ncclCommRevoke(node.comms[0], NCCL_REVOKE_DEFAULT) == ncclSuccess);
    CHECK(cudaStreamSynchronize(node.streams[0]) == cudaSuccess);
    CHECK(ncclAllReduce(&data, &data, 1, ncclInt, ncclSum, node.comms[0], node.streams[0]) != ncclSuccess);
    CHECK(ncclCommFinalize(node.comms[0]) != ncclSuccess);
}

TEST_CASE("what NCCL refuses") {
    ncclComm_t comms[2];
    const int same[] = {0, 0};
    CHECK(ncclCommInitAll(comms, 2, same) == ncclInvalidUsage);  // two ranks on one device
    Node node(1);
    int data = 0;
    CHECK(ncclAllReduce(&data, &data, 1, ncclInt, ncclSum, nullptr, nullptr) == ncclInvalidArgument);
    CHECK(ncclAllReduce(&data, &data, 1, ncclNumTypes, ncclSum, node.comms[0], nullptr) == ncclInvalidArgument);
    CHECK(ncclSend(&data, 1, ncclInt, 5, node.comms[0], nullptr) == ncclInvalidArgument);
    ncclConfig_t config;
    std::memset(&config, 0, sizeof(config));
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclComm_t comm;
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
}

TEST_CASE(
    "shared memory of a job that is gone goes when it is old: a young one may be starting in another PID namespace") {
    const std::string name = "/simgpu-" + std::to_string(getuid()) + "-2000000000-test";
    const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
    REQUIRE(fd >= 0);
    ncclUniqueId id;
    struct stat status;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    CHECK(fstat(fd, &status) == 0);
    CHECK(status.st_nlink == 1);
    const timespec day_of_1970[2] = {{3600, 0}, {3600, 0}};
    CHECK(futimens(fd, day_of_1970) == 0);
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    CHECK(fstat(fd, &status) == 0);
    CHECK(status.st_nlink == 0);
    close(fd);
    shm_unlink(name.c_str());
}
