// What the small programs of the end-to-end tests share. They are ordinary users of CUDA and NCCL: nothing in here
// knows of the tracer. Each program is a list of scenarios; the test names one on the command line and reads stdout.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace client {

inline void say(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::printf("\n");
    std::fflush(stdout);
}

inline void require(bool good, const char* what, int line) {
    if (!good) {
        say("line %d: %s failed", line, what);
        _exit(1);
    }
}

#define REQUIRE(condition) client::require(static_cast<bool>(condition), #condition, __LINE__)
#define NCCL(call) client::require((call) == ncclSuccess, #call, __LINE__)
#define CUDA(call) client::require((call) == cudaSuccess, #call, __LINE__)

inline int number(const char* variable, int otherwise) {
    const char* text = std::getenv(variable);
    return text ? std::atoi(text) : otherwise;
}

// The test and its programs meet in a directory: a file there is a signal.
inline std::string meeting(const std::string& name) { return std::string(std::getenv("E2E_MEET")) + "/" + name; }

inline void await(const std::string& name) {
    struct stat status;
    while (stat(meeting(name).c_str(), &status) != 0) {
        usleep(5000);
    }
}

// Rank 0 makes the unique id, the others find it in the directory where all meet.
inline ncclUniqueId shared_id(const std::string& name, int rank, int size) {
    ncclUniqueId id;
    if (size == 1) {
        NCCL(ncclGetUniqueId(&id));
        return id;
    }
    const std::string path = meeting(name);
    if (rank == 0) {
        NCCL(ncclGetUniqueId(&id));
        FILE* file = std::fopen((path + ".new").c_str(), "w");
        REQUIRE(file && std::fwrite(&id, sizeof(id), 1, file) == 1 && std::fclose(file) == 0);
        REQUIRE(std::rename((path + ".new").c_str(), path.c_str()) == 0);
        return id;
    }
    await(name);
    FILE* file = std::fopen(path.c_str(), "r");
    REQUIRE(file && std::fread(&id, sizeof(id), 1, file) == 1);
    std::fclose(file);
    return id;
}

// One rank: its communicator, a stream, and a buffer that is large enough for everything here.
struct Rank {
    int rank = number("RANK", 0), size = number("WORLD_SIZE", 1);
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    float *send = nullptr, *receive = nullptr;

    Rank() {
        CUDA(cudaSetDevice(number("LOCAL_RANK", rank)));
        CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CUDA(cudaMalloc(reinterpret_cast<void**>(&send), 1 << 20));
        CUDA(cudaMalloc(reinterpret_cast<void**>(&receive), 1 << 20));
    }

    void join(const char* name = "id") {
        const ncclUniqueId id = shared_id(name);
        NCCL(ncclCommInitRank(&comm, size, id, rank));
    }

    ncclUniqueId shared_id(const std::string& name) const { return client::shared_id(name, rank, size); }

    void all_reduce(size_t count = 16) {
        NCCL(ncclAllReduce(send, receive, count, ncclFloat32, ncclSum, comm, stream));
    }
    void sync() { CUDA(cudaStreamSynchronize(stream)); }
    void reduce_and_sync() {
        all_reduce();
        sync();
    }
    void leave() {
        NCCL(ncclCommDestroy(comm));
        comm = nullptr;
    }
};

struct Scenario {
    const char* name;
    int (*run)();
};

template <size_t N>
int run(const Scenario (&scenarios)[N], int argc, char** argv) {
    for (const Scenario& scenario : scenarios) {
        if (argc > 1 && std::strcmp(argv[1], scenario.name) == 0) {
            return scenario.run();
        }
    }
    std::fprintf(stderr, "usage: %s SCENARIO; there are:\n", argv[0]);
    for (const Scenario& scenario : scenarios) {
        std::fprintf(stderr, "  %s\n", scenario.name);
    }
    return 2;
}

}  // namespace client
