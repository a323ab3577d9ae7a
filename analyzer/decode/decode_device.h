// What a ring tells about the GPU: how far each call is there, and what the program handed to its streams beside NCCL's
// calls. Pure functions over a ring image; hostile values are clamped or left out.
#pragma once

#include "open_source.h"
#include "run.h"
#include "text_table.h"

namespace titan::analyzer {

DeviceState device_state(const format::CollectiveEntry& raw, const format::RingImage& image);

// After the entries. ncclCommAbort makes the kernels of a communicator return: a call that ended only then, as those do
// that PyTorch's watchdog aborts, has not finished.
void undo_ends_by_abort(Process& process);

// After that. Where the method only reports what it saw start, a call that it watches and has not seen start is
// not reached.
void complete_device_states(Process& process);

// After the entries and threads: fills Process::work, streams_seen, work_done, channels. Work that is known to be done
// is left out: because something after it on its stream is, because a stream that waited for its event went past the
// wait, or because the host waited for it and came back.
void decode_stream_work(const OpenedSource& opened, TextTable& texts, Process& process);
void decode_channels(const format::RingImage& image, Process& process);

}  // namespace titan::analyzer
