// The graphs' side: which list each graph and executable graph has. cold; captures are in graphs_capture.cpp.
#include "graphs_state.h"

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
void Graphs::bind(Recording& recording, HandleTable<CapturedCalls>& table, const void* handle, CapturedCalls* calls) {
    if (calls == nullptr) {
        release(table.forget(handle));
        return;
    }
    bool full = false;
    CapturedCalls* const before = table.set(handle, calls, full);
    if (full) {
        count_loss(recording, format::Loss::kGraphsUntracked);
        release(calls);
    }
    release(before);
}

// Puts the calls of `more` behind those of `list`, as having come with `node` (0: keep what they have).
void Graphs::append(Recording& recording, CapturedCalls*& list, const CapturedCalls& more, uint64_t node) {
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
            count_loss(recording, format::Loss::kGraphsUntracked);
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
CapturedCalls* Graphs::replaced(Recording& recording, const CapturedCalls& list, uint64_t node,
                                const CapturedCalls* by) {
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
            append(recording, launched, *by, node);
        }
    }
    if (launched != nullptr && launched != &untracked_) {
        launched = lists_.append(launched, calls + end, count - end);
    }
    if (launched == nullptr) {
        count_loss(recording, format::Loss::kGraphsUntracked);
        return &untracked_;
    }
    if (launched != &untracked_ && launched->count.load(std::memory_order_relaxed) == 0) {
        release(launched);
        return nullptr;
    }
    return launched;
}

// The clone's nodes have handles that nobody told us.
void Graphs::clone(Recording& recording, const void* clone, const void* original) {
    CapturedCalls* const list = graphs_.find(original);
    if (list == nullptr || is_mark(list) || !list->has_nodes) {
        bind(recording, graphs_, clone, shared(list));
        return;
    }
    CapturedCalls* copy = nullptr;
    append(recording, copy, *list, 0);
    for (uint32_t i = 0; copy != &untracked_ && i < copy->count.load(std::memory_order_relaxed); ++i) {
        CapturedCall& call = copy->calls()[i];
        call.node = call.node != 0 ? kUnknownNode : 0;
    }
    bind(recording, graphs_, clone, copy);
}

void Graphs::add_child(Recording& recording, const void* graph, const void* node, const void* child) {
    const CapturedCalls* const more = graphs_.find(child);
    if (more == nullptr || more == &body_) {
        return;
    }
    CapturedCalls* list = graphs_.find(graph);
    if (list == &body_) {
        count_loss(recording, format::Loss::kGraphsUntracked);  // inside a conditional node
        return;
    }
    if (list != nullptr && has_node(*list, reinterpret_cast<uint64_t>(node))) {
        return;  // the runtime's call, after the driver's inside it
    }
    if (list != nullptr && list != &untracked_) {
        lists_.keep(*list);  // bind() gives back the table's own
    }
    append(recording, list, *more, reinterpret_cast<uint64_t>(node));
    bind(recording, graphs_, graph, list);
}

void Graphs::add_conditional_body(Recording& recording, const void* body) { bind(recording, graphs_, body, &body_); }

void Graphs::destroy_node(Recording& recording, const void* node) {
    const auto wanted = reinterpret_cast<uint64_t>(node);
    graphs_.for_each([&](const void* graph, CapturedCalls* list) {
        if (!is_mark(list) && has_node(*list, wanted)) {
            bind(recording, graphs_, graph, replaced(recording, *list, wanted, nullptr));
        }
    });
}

void Graphs::set_exec(Recording& recording, const void* exec, const void* graph) {
    bind(recording, execs_, exec, shared(graphs_.find(graph)));
}

void Graphs::set_exec_child(Recording& recording, const void* exec, const void* node, const void* child) {
    CapturedCalls* const list = execs_.find(exec);
    CapturedCalls* by = graphs_.find(child);
    by = by == &body_ ? nullptr : by;
    if (list == &untracked_ || (list == nullptr && by == nullptr)) {
        return;
    }
    const auto wanted = reinterpret_cast<uint64_t>(node);
    if (list != nullptr && has_node(*list, wanted)) {
        bind(recording, execs_, exec, replaced(recording, *list, wanted, by));
        return;
    }
    if (by == nullptr) {
        return;  // neither the old child nor the new one has collectives
    }
    // Collectives come in at a place that we do not know, or instead of others that we cannot tell (a clone's).
    count_loss(recording, format::Loss::kGraphsUntracked);
    bind(recording, execs_, exec, &untracked_);
}

}  // namespace titan::tracer
