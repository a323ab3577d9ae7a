// As much of CUDA as captures and graphs need, and the calls that the wrappers make around it.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/layout/ring_layout.h"
#include "tracer/record.h"

namespace titan::test {

using Handle = const void*;

// False: an old driver, that cannot be asked which capture it is.
void set_driver_names_captures(bool names);

Handle new_stream();

// Begin and end as the wrappers see them. An end gives the graph, null when the capture was invalidated.
void begin_capture(Handle stream, Handle into = nullptr);
void begin_capture_unseen(Handle stream);
void fork_capture(Handle from, Handle to);  // an event of `from` was waited for by `to`
void invalidate_capture(Handle stream);
Handle end_capture(Handle stream);
// A graph with what `fill(stream)` does.
template <typename Fill>
Handle capture(Fill fill) {
    const Handle stream = new_stream();
    begin_capture(stream);
    fill(stream);
    return end_capture(stream);
}

Handle new_graph();
Handle instantiate(Handle graph);
void instantiate_as(Handle exec, Handle graph);
Handle add_child(Handle graph, Handle child);  // the new node

// One launch: the entries that it wrote.
std::vector<format::CollectiveEntry> launch(Handle exec, Handle stream, int result = 0);

format::CollectiveEntry& all_reduce(void* comm, Handle stream, size_t count = 8, int result = 0);

}  // namespace titan::test
