#include "cold_calls.h"

#include "cold_lock.h"
#include "tracer/graphs.h"

namespace titan::tracer {

namespace {

template <typename Change>
void change_graphs(Change change) {
    Session* const current = session();
    if (current == nullptr) {
        return;
    }
    if (const ColdLock lock; lock) {
        change(current->graphs, *current);
    }
}

}  // namespace

uint32_t capture_without_driver(Session& session, const void* stream) {
    return session.graphs.knows_captured(stream) ? join_capture(session, stream, kCaptureStatusActive, {})
                                                 : kNotCaptured;
}

uint32_t join_capture(Session& session, const void* stream, int status, const Graphs::Capture& capture) {
    if (status != kCaptureStatusActive) {
        return kUnknownCapture;  // invalidated: whatever is captured now is lost
    }
    const ColdLock lock;
    return lock ? session.graphs.join_capture(session, stream, capture) : kUnknownCapture;
}

void remember_captured(Session& session, uint64_t first_ticket, uint64_t last_ticket, uint64_t group) {
    const ColdLock lock;
    for (uint64_t ticket = first_ticket; lock && ticket <= last_ticket; ++ticket) {
        const format::CollectiveEntry* const entry = session.collectives.find(ticket);
        if (entry == nullptr) {
            count_loss(session, format::Loss::kLateUpdates);
        } else if (entry->group == group && load_field(entry->state) == format::CallState::kCaptured) {
            session.graphs.remember(session, *entry);
        }
    }
}

void note_launch_captured(Session& session, const void* exec, const void* stream) {
    const uint32_t capture = ask_capture(session, stream);
    if (capture == kNotCaptured || capture == kUnknownCapture) {
        return;
    }
    if (const ColdLock lock; lock) {
        session.graphs.remember_launch(session, capture, exec);
    }
}

bool is_capturing(const void* stream) {
    const Session* const current = session();
    return current != nullptr && current->graphs.knows_captured(stream);
}

void note_capture_begun(const void* stream, const void* into) {
    Session* const current = session();
    if (current == nullptr) {
        return;
    }
    int status = kCaptureStatusNone;
    Graphs::Capture capture{};
    const void* const asked = stream != nullptr ? stream : reinterpret_cast<const void*>(kPerThreadStream);
    if (!ask_driver(*current, asked, status, capture) || status != kCaptureStatusActive) {
        capture = {};
    }
    if (const ColdLock lock; lock) {
        current->graphs.begin_capture(stream, into, capture);
    }
}

void note_capture_ended(const void* stream, const void* graph) {
    Session* const current = session();
    if (current == nullptr) {
        return;
    }
    if (const ColdLock lock; lock) {
        current->graphs.end_capture(*current, stream, graph);
    }
}

void note_graph_cloned(const void* clone, const void* original) {
    change_graphs([&](Graphs& graphs, Session& session) { graphs.clone(session, clone, original); });
}

void note_child_added(const void* graph, const void* node, const void* child) {
    change_graphs([&](Graphs& graphs, Session& session) { graphs.add_child(session, graph, node, child); });
}

void note_conditional_body(const void* body) {
    change_graphs([&](Graphs& graphs, Session& session) { graphs.add_conditional_body(session, body); });
}

void note_node_destroyed(const void* node) {
    change_graphs([&](Graphs& graphs, Session& session) { graphs.destroy_node(session, node); });
}

void note_exec_child_set(const void* exec, const void* node, const void* child) {
    change_graphs([&](Graphs& graphs, Session& session) { graphs.set_exec_child(session, exec, node, child); });
}

void note_graph_instantiated(const void* exec, const void* graph) {
    change_graphs([&](Graphs& graphs, Session& session) { graphs.set_exec(session, exec, graph); });
}

void note_exec_updated(const void* exec, const void* graph) { note_graph_instantiated(exec, graph); }

void note_graph_destroyed(const void* graph) {
    change_graphs([&](Graphs& graphs, Session&) { graphs.destroy_graph(graph); });
}

void note_exec_destroyed(const void* exec) {
    change_graphs([&](Graphs& graphs, Session&) { graphs.destroy_exec(exec); });
}

}  // namespace titan::tracer
