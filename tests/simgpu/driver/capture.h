// Stream capture: which calls it forbids, and how streams join it. All functions expect the driver's lock held.
#pragma once

#include "objects.h"

namespace simgpu {

// CUDA calls that might synchronise ("potentially unsafe") are forbidden while a capture in global mode runs, and for
// the capturing thread in thread-local mode too; the attempt invalidates the capture.
CUresult check_unsafe_call();
CUstreamCaptureMode& thread_capture_mode();

// The legacy stream cannot be used while a stream that synchronises with it is captured.
CUresult check_legacy_use(CUcontext context);

// Into a new graph, or behind `after` in the program's own.
CUresult begin_capture(const StreamRef& stream, CUstreamCaptureMode mode, CUgraph into, std::vector<CUgraphNode> after);
CUresult end_capture(const StreamRef& stream, CUgraph* out);
CUresult join_capture(const StreamRef& stream, const EventRef& event);
CUresult add_captured_node(const StreamRef& stream, CUgraphNode_st node);
// For a call that a capturing stream cannot take: invalidates and names the error.
CUresult refuse(const std::shared_ptr<Capture>& capture, CUresult error);

}  // namespace simgpu
