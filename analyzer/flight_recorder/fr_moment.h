// When Flight Recorder files were made, which none of them says outright, and which of them are of another run.
#pragma once

#include <vector>

#include "formats/fr/fr_dump.h"
#include "run.h"

namespace titan::analyzer {

// When the dump was made: from its entries, else the file's time, else what PyTorch's timeout leaves of it.
void set_moment(const format::fr::Dump& dump, Process& process);
// Finds files whose times are those of a copy: only all files together show that.
void compare_moments(Run& run);
// Leaves out files of an earlier run, which a rank that died without a dump left in the way.
void leave_out_stale(std::vector<Process>& processes, std::vector<Warning>& warnings);

}  // namespace titan::analyzer
