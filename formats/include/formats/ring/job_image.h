// A safe view of the bytes of a job segment, as a tool read them: hostile, torn or of another version. It owns what it
// says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/layout/job_layout.h"
#include "host/result.h"

namespace titan::format {

struct JobMember {
    JobState state{};
    int32_t pid = 0;
    int32_t rank = -1;
    uint32_t claim = 0;  // pid of the process that wrote this one's dump, 0 nobody
    uint64_t start_ticks = 0;
    size_t claim_offset_bytes = 0;  // offset in the segment
};

// The name of the segment of that run and attempt, as tracers of this version make it.
std::string job_segment_name(std::string_view run, int32_t attempt);

// Returns an error if the file is no segment of this version.
Result<std::vector<JobMember>> read_job_segment(std::span<const std::byte> bytes);

}  // namespace titan::format
