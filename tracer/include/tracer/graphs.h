// CUDA stream capture and graphs as the wrappers see them: which collectives a graph holds, and that it was launched.
//
// Handles travel as addresses. note_* functions are called after the real call succeeded, except when an object is
// about to be destroyed: those come before it, because CUDA reuses addresses. None of them starts a session. cold,
// any-thread, unless said otherwise; only note_capture_begun and the launch ask the driver a question: which capture
// this is.
#pragma once

#include <cstdint>

#include "tracer/record.h"

namespace titan::tracer {

// `into`: the graph given at the begin of the capture (cudaStreamBeginCaptureToGraph), null if none.
void note_capture_begun(const void* stream, const void* into = nullptr);
void note_capture_ended(const void* stream, const void* graph);  // null graph: the capture was invalidated

void note_graph_cloned(const void* clone, const void* original);
void note_child_added(const void* graph, const void* node, const void* child);    // cudaGraphAddChildGraphNode
void note_conditional_body(const void* body);                                     // each graph of a conditional node
void note_node_destroyed(const void* node);                                       // before the real call
void note_exec_child_set(const void* exec, const void* node, const void* child);  // ...ExecChildGraphNodeSetParams
void note_graph_instantiated(const void* exec, const void* graph);
void note_exec_updated(const void* exec, const void* graph);
void note_graph_destroyed(const void* graph);  // before the real call
void note_exec_destroyed(const void* exec);    // before the real call

// Is the stream being captured, as far as we saw? hot, asks nobody: knows streams whose capture we saw begin and those
// that a collective was captured on.
bool is_capturing(const void* stream);

// A launch. On a capturing stream it becomes a child of the graph being captured. Else the collectives of the graph
// become entries with the next sequence numbers of their communicators. hot in the number of its collectives.
bool enter_graph_launch(Call& call, uint16_t api, const void* exec, const void* stream);
void leave_graph_launch(Call& call, int result);

}  // namespace titan::tracer
