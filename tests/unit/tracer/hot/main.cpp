#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "doctest_run.h"
#include "fixture.h"
#include "ring.h"
#include "start_session.h"

namespace titan::test {

namespace {

const char* const kNames[] = {nullptr, "ncclAllReduce"};

// What the next child communicator's queries answer.
int answer_size = -1;
int answer_rank = -1;
const tracer::CommQueries kQueries{
    .size = [](const void*, int* size) { return *size = answer_size, 0; },
    .rank = [](const void*, int* rank) { return *rank = answer_rank, 0; },
    .device = [](const void*, int* device) { return *device = 0, 0; },
};

void* create_with(tracer::CreateArgs args) {
    void* handle = nullptr;
    args.queries = &kQueries;
    tracer::Call call;
    REQUIRE(enter_create(call, kAnyApi, args));
    handle = new_handle();
    leave_create(call, &handle, 0);
    return handle;
}

}  // namespace

tracer::Session& recording() {
    tracer::Session* const session = tracer::start_session();
    REQUIRE(session != nullptr);
    return *session;
}

void* new_handle() {
    static uintptr_t next = 0x10000;
    return reinterpret_cast<void*>(next += 0x100);
}

void* create(int seed, int size, int rank) {
    unsigned char unique_id[128]{};
    unique_id[0] = static_cast<unsigned char>(seed);
    answer_size = size;
    answer_rank = rank;
    return create_with({.kind = format::OpKind::kCommInit, .unique_id = unique_id, .size = size, .rank = rank});
}

void* split(void* parent, int color, int key, int child_size, int child_rank) {
    answer_size = child_size;
    answer_rank = child_rank;
    return create_with({.kind = format::OpKind::kCommSplit, .parent = parent, .color = color, .key = key});
}

void* shrink(void* parent, const int* excluded, int excluded_count, int child_size, int child_rank) {
    answer_size = child_size;
    answer_rank = child_rank;
    return create_with({.kind = format::OpKind::kCommShrink,
                        .parent = parent,
                        .excluded = excluded,
                        .excluded_count = excluded_count});
}

format::CollectiveEntry& call(const tracer::CallArgs& args, int result) {
    tracer::Call call;
    REQUIRE(enter_call(call, kAnyApi, args));
    leave_call(call, result);
    format::CollectiveEntry* const entry = recording().collectives.find(call.ticket);
    REQUIRE(entry != nullptr);
    return *entry;
}

format::CommunicatorRecord& record_of(void* handle) {
    tracer::Communicator* const communicator = recording().communicators.find(handle);
    REQUIRE(communicator != nullptr);
    return *communicator->record;
}

}  // namespace titan::test

int main(int argc, char** argv) {
    std::string directory = "/dev/shm/titan-hot-XXXXXX";  // memory: devices write only there
    if (mkdtemp(directory.data()) == nullptr) {
        return 1;
    }
    // The commit of the repository that a session begins in becomes a marker, at some moment amid those of the tests.
    std::filesystem::current_path(directory);
    setenv("TITANTRACE_RING_DIR", directory.c_str(), 1);
    setenv("TITANTRACE_DIR", (directory + "/dumps").c_str(), 1);
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    titan::tracer::set_bindings({.apis = {titan::test::kNames, std::size(titan::test::kNames)},
                                 .kernel_name = nullptr,
                                 .find_driver = titan::test::find_driver,
                                 .find_nvml = nullptr,
                                 .nccl_version = nullptr,
                                 .session_started = nullptr});
    const int result = run_doctest(argc, argv);
    std::filesystem::remove_all(directory);
    return result;
}
