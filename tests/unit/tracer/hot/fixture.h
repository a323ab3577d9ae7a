// A real session in this process, with its ring in a directory of the test's own, and calls as a wrapper would make
// them.
#pragma once

#include <cstdint>

#include "session.h"
#include "tracer/record.h"

namespace titan::test {

inline constexpr uint16_t kAnyApi = 1;

// What stands in for libcuda, set before main(); null: no driver.
inline bool (*find_driver)(tracer::DriverApi& driver) = nullptr;

// The session, started at its first use.
tracer::Session& recording();

// A handle that no communicator has.
void* new_handle();

// Creates a communicator the way a wrapper does: id from `id_seed`, handle stored by "NCCL" before the call returns.
void* create(int seed, int size, int rank);
void* split(void* parent, int color, int key, int child_size, int child_rank);
void* shrink(void* parent, const int* excluded, int excluded_count, int child_size, int child_rank);

// One call on a communicator that returns `result`. Returns its entry.
format::CollectiveEntry& call(const tracer::CallArgs& args, int result = 0);
format::CollectiveEntry& newest_entry();

format::CommunicatorRecord& record_of(void* handle);

}  // namespace titan::test
