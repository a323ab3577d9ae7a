#include "tracer/graphs.h"

namespace titan::tracer {

void note_capture_begun(const void*) {}
void note_capture_ended(const void*, const void*) {}
void note_graph_cloned(const void*, const void*) {}
void note_child_added(const void*, const void*, const void*) {}
void note_node_destroyed(const void*) {}
void note_exec_child_set(const void*, const void*, const void*) {}
void note_graph_instantiated(const void*, const void*) {}
void note_exec_updated(const void*, const void*) {}
void note_graph_destroyed(const void*) {}
void note_exec_destroyed(const void*) {}

bool enter_graph_launch(Call& call, uint16_t api, const void* exec, const void* stream) {
    return enter_work(call, api, {.kind = format::WorkKind::kGraphLaunch, .stream = stream, .object = exec});
}
void leave_graph_launch(Call& call, int result) { leave_work(call, result); }

}  // namespace titan::tracer
