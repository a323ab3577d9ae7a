// Reads the state of the GPU from a ring: how far each call is there, and the program's work on its streams other than
// NCCL's calls. Pure functions over a ring image; hostile values are clamped or left out.
#pragma once

#include "open_source.h"
#include "run.h"
#include "text_table.h"

namespace titan::analyzer {

DeviceState device_state(const format::CollectiveEntry& raw, const format::RingImage& image);

// Runs after the entries are decoded. ncclCommAbort makes the kernels of a communicator return: a call that ended only
// then, as calls do that PyTorch's watchdog aborts, has not finished. The observer notes an end a little late: what the
// host or a stream had waited for before the abort had ended by then.
void undo_ends_by_abort(const format::RingImage& image, Process& process);

// Runs next. If the method only reports the starts that it saw, a watched call without a start has not been reached.
void complete_device_states(Process& process);

// Runs after entries and threads are decoded: fills Process::work, streams_seen, work_done, channels. Leaves out work
// that is known to be done: because something after it on its stream is, because a stream that waited for its event
// went past the wait, or because the host waited for it and came back.
void decode_stream_work(const OpenedSource& opened, TextTable& texts, Process& process);
void decode_channels(const format::RingImage& image, Process& process);

}  // namespace titan::analyzer
