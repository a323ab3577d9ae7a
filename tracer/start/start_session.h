// Starts the recorder. cold, any-thread.
#pragma once

namespace titan::tracer {

struct Session;

// The session, started if this process has none yet. Null when recording is off or could not start.
Session* start_session();

// As start_session, but only in a process that its environment says is a rank, and that is no child of one that
// records: markers, NVTX ranges and CUDA alone must not make every helper process of a job a member of it.
Session* start_session_of_rank();

}  // namespace titan::tracer
