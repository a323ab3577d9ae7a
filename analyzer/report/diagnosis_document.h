// A diagnosis as a document: the verdict first, then why, then who does what, then what could not be seen.
#pragma once

#include <string>

#include "document.h"
#include "finding.h"
#include "run.h"

namespace titan::analyzer {

Document diagnosis_document(const Run& run, const Diagnosis& diagnosis);
// Then what to do: commands for the place where the records lie, which are no part of the diagnosis. `input` names it
// on a command line.
Document advised_document(const Run& run, const Diagnosis& diagnosis, const std::string& input);
// With style.rows a screenful, which says how to see the rest.
std::string text_report(const Run& run, const Diagnosis& diagnosis, const TextStyle& style);

// --- A stack as lines of a report: the program's frames in full, runs of library frames as one line each.

// Keeps the outermost frame of a run of library frames, because it is what the program called: "16 frames in libc.so.6,
// libcuda.so.1", "cudaStreamSynchronize (libcuda.so.1)". More than `most` lines are cut in the middle.
std::vector<std::string> folded_frames(const std::vector<StackFrame>& innermost_first, size_t most);

}  // namespace titan::analyzer
