// Puts parts of a run into words.
#pragma once

#include <string>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// A name that found no room in the tracer's table is empty.
inline std::string name_or_none(const std::string& name) { return name.empty() ? "(no name)" : name; }
// "all_reduce", or "op 99" for a kind that this build does not know.
std::string op_text(OpKind kind);
std::string datatype_text(Datatype datatype);
std::string reduction_text(Reduction reduction);
std::string communicator_text(const Communicator& communicator);
// Its name, or the start of its id.
std::string communicator_name(const Communicator& communicator);
std::string short_id_text(uint64_t id);
// "7 of 8 ranks": how many have a record.
std::string recorded_ranks_text(const Run& run);
// How the recorder's budget limits what is observed of GPUs, one sentence for each way; none where each launch has the
// best marks.
std::vector<std::string> observing_texts(const Run& run);
// "all_reduce #41 on dp:0".
std::string call_text(const Communicator& communicator, OpKind kind, uint64_t sequence);
// "#48"; empty for what makes or ends communicators, whose record has the number of the next collective.
std::string sequence_text(OpKind kind, uint64_t sequence);
// "all_reduce #48", "comm_split".
std::string numbered_op_text(OpKind kind, uint64_t sequence);
// "float32 x 1,024, sum".
std::string arguments_text(const Entry& entry);
// ", called at train.py:212 in step", empty where the record does not tell.
std::string site_text(const Process& process, const Entry& entry);
// "was told to end by SIGTERM from pid 77 at 12:00:01.250", "exited with status 3 at ...", "showed its last sign of
// life at ...".
std::string end_text(const Process& process);
// Compares the end of a process with those of the others: evidence of who was first. Empty if there is nothing to
// compare.
std::string end_order_text(const Run& run, const Process& process);

}  // namespace titan::analyzer
