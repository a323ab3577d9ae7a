// Reads a module's unwind tables (.eh_frame by its .eh_frame_hdr) for one return address. Through the kernel, so that a
// module that is just being unloaded faults nothing. No allocation, bounded.
//
// Sources: the DWARF 5 standard, section 6.4; the Linux Standard Base on .eh_frame and .eh_frame_hdr.
#pragma once

#include "modules.h"
#include "unwind_rules.h"

namespace titan::tracer {

// kStop where the tables have nothing, or nothing that a rule can say.
UnwindRule read_unwind_rule(const Module& module, uint64_t return_address);
// The start of the code that the tables describe together with that address; 0 unknown.
uint64_t function_begin(const Module& module, uint64_t address);

}  // namespace titan::tracer
