// Starts one process per rank and watches over them.
#pragma once

#include "options.h"

namespace simgpu {

int launch_ranks(const Options& options, char** argv);

// A private directory for the exchange of ids, and everything that the job can leave behind, removed.
std::string make_job_directory();
void clean_up_job(const std::string& directory, int job_pid);

}  // namespace simgpu
