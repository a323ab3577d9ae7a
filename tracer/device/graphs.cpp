// The graphs' side: which list each graph and executable graph has. cold; captures are in graphs_capture.cpp.
#include "tracer/graphs.h"

#include "graphs_state.h"
#include "session/cold_lock.h"
#include "session/session.h"

namespace titan::tracer {

namespace {

// Have calls of this list come with `node`?
bool has_node(const CapturedCalls& list, uint64_t node) {
    const CapturedCall* const calls = list.calls();
    for (uint32_t i = 0; list.has_nodes && i < list.count.load(std::memory_order_relaxed); ++i) {
        if (calls[i].node == node) {
            return true;
        }
    }
    return false;
}

}  // namespace

void Graphs::release(CapturedCalls* list) {
    if (!is_mark(list)) {
        lists_.drop(list);
    }
}

// One more reference; a conditional's body has no calls that count.
CapturedCalls* Graphs::shared(CapturedCalls* list) {
    if (list == &body_) {
        return nullptr;
    }
    if (list != nullptr && list != &untracked_) {
        lists_.keep(*list);
    }
    return list;
}

// The handle has this list from now on (null: none), whatever it had: CUDA may have reused it.
void Graphs::bind(Session& session, HandleTable<CapturedCalls>& table, const void* handle, CapturedCalls* calls) {
    if (calls == nullptr) {
        release(table.forget(handle));
        return;
    }
    bool full = false;
    CapturedCalls* const before = table.set(handle, calls, full);
    if (full) {
        count_loss(session, format::Loss::kGraphsUntracked);
        release(calls);
    }
    release(before);
}

// Puts the calls of `more` behind those of `list`, as having come with `node` (0: keep what they have).
void Graphs::append(Session& session, CapturedCalls*& list, const CapturedCalls& more, uint64_t node) {
    if (list == &untracked_ || &more == &body_) {
        return;
    }
    const uint32_t count = more.count.load(std::memory_order_relaxed);
    if (&more != &untracked_ && count == 0) {
        return;
    }
    const uint32_t groups = more.groups;
    const bool has_nodes = more.has_nodes;
    const CapturedCall* const calls = more.calls();
    if (list == &body_) {
        list = nullptr;
    }
    list = &more == &untracked_ ? (release(list), nullptr) : lists_.append(list, calls, count);
    if (list == nullptr) {
        if (&more != &untracked_) {
            count_loss(session, format::Loss::kGraphsUntracked);
        }
        list = &untracked_;
        return;
    }
    CapturedCall* const added = list->calls() + list->count.load(std::memory_order_relaxed) - count;
    for (uint32_t i = 0; i < count; ++i) {
        added[i].group += added[i].group != 0 ? list->groups : 0;
        added[i].node = node != 0 ? node : added[i].node;
    }
    list->groups += groups;
    list->has_nodes = list->has_nodes || has_nodes || node != 0;
}

// A new list: as `list`, with `by` (null: nothing) in the place of what came with `node`. Null when nothing is left.
CapturedCalls* Graphs::replaced(Session& session, const CapturedCalls& list, uint64_t node, const CapturedCalls* by) {
    const CapturedCall* const calls = list.calls();
    const uint32_t count = list.count.load(std::memory_order_relaxed);
    uint32_t begin = 0;
    while (begin < count && calls[begin].node != node) {
        ++begin;
    }
    uint32_t end = begin;
    while (end < count && calls[end].node == node) {
        ++end;
    }
    CapturedCalls* launched = lists_.append(nullptr, calls, begin);
    if (launched != nullptr) {
        launched->groups = list.groups;
        launched->has_nodes = true;
        if (by != nullptr) {
            append(session, launched, *by, node);
        }
    }
    if (launched != nullptr && launched != &untracked_) {
        launched = lists_.append(launched, calls + end, count - end);
    }
    if (launched == nullptr) {
        count_loss(session, format::Loss::kGraphsUntracked);
        return &untracked_;
    }
    if (launched != &untracked_ && launched->count.load(std::memory_order_relaxed) == 0) {
        release(launched);
        return nullptr;
    }
    return launched;
}

// The clone's nodes have handles that nobody told us.
void Graphs::clone(Session& session, const void* clone, const void* original) {
    CapturedCalls* const list = graphs_.find(original);
    if (list == nullptr || is_mark(list) || !list->has_nodes) {
        bind(session, graphs_, clone, shared(list));
        return;
    }
    CapturedCalls* copy = nullptr;
    append(session, copy, *list, 0);
    for (uint32_t i = 0; copy != &untracked_ && i < copy->count.load(std::memory_order_relaxed); ++i) {
        CapturedCall& call = copy->calls()[i];
        call.node = call.node != 0 ? kUnknownNode : 0;
    }
    bind(session, graphs_, clone, copy);
}

void Graphs::add_child(Session& session, const void* graph, const void* node, const void* child) {
    const CapturedCalls* const more = graphs_.find(child);
    if (more == nullptr || more == &body_) {
        return;
    }
    CapturedCalls* list = graphs_.find(graph);
    if (list == &body_) {
        count_loss(session, format::Loss::kGraphsUntracked);  // inside a conditional node
        return;
    }
    if (list != nullptr && has_node(*list, reinterpret_cast<uint64_t>(node))) {
        return;  // the runtime's call, after the driver's inside it
    }
    if (list != nullptr && list != &untracked_) {
        lists_.keep(*list);  // bind() gives back the table's own
    }
    append(session, list, *more, reinterpret_cast<uint64_t>(node));
    bind(session, graphs_, graph, list);
}

void Graphs::add_conditional_body(Session& session, const void* body) { bind(session, graphs_, body, &body_); }

void Graphs::destroy_node(Session& session, const void* node) {
    const auto wanted = reinterpret_cast<uint64_t>(node);
    graphs_.for_each([&](const void* graph, CapturedCalls* list) {
        if (!is_mark(list) && has_node(*list, wanted)) {
            bind(session, graphs_, graph, replaced(session, *list, wanted, nullptr));
        }
    });
}

void Graphs::set_exec(Session& session, const void* exec, const void* graph) {
    bind(session, execs_, exec, shared(graphs_.find(graph)));
}

void Graphs::set_exec_child(Session& session, const void* exec, const void* node, const void* child) {
    CapturedCalls* const list = execs_.find(exec);
    CapturedCalls* by = graphs_.find(child);
    by = by == &body_ ? nullptr : by;
    if (list == &untracked_ || (list == nullptr && by == nullptr)) {
        return;
    }
    const auto wanted = reinterpret_cast<uint64_t>(node);
    if (list != nullptr && has_node(*list, wanted)) {
        bind(session, execs_, exec, replaced(session, *list, wanted, by));
        return;
    }
    if (by == nullptr) {
        return;  // neither the old child nor the new one has collectives
    }
    // Collectives come in at a place that we do not know, or instead of others that we cannot tell (a clone's).
    count_loss(session, format::Loss::kGraphsUntracked);
    bind(session, execs_, exec, &untracked_);
}

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
