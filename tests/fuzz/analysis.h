// What the targets share: the whole analysis of what a reader let through, and the container of dumps and digests.
#pragma once

#include <string>

#include "run.h"
#include "target.h"

namespace titan::fuzz {

// Beside two sound processes of the job that the samples are of, through every report.
void analyze(std::vector<analyzer::Process> processes);
// Everything after link().
void report(analyzer::Run& run);

bool seal_container(Bytes& file);

// The file by a path, for readers that open it themselves.
std::string path_with(std::span<const unsigned char> file);

}  // namespace titan::fuzz
