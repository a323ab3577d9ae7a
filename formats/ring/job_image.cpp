#include "formats/ring/job_image.h"

#include <algorithm>
#include <cstring>

namespace titan::format {
namespace {

template <typename T>
T copy_at(std::span<const std::byte> bytes, size_t offset_bytes) {
    T value;
    std::memcpy(&value, bytes.data() + offset_bytes, sizeof(T));
    return value;
}

JobMember read_member(std::span<const std::byte> bytes, size_t place) {
    const size_t at = offsetof(JobSegment, processes) + place * sizeof(JobProcess);
    JobMember member;
    member.state = copy_at<JobState>(bytes, at + offsetof(JobProcess, state));
    member.pid = copy_at<int32_t>(bytes, at + offsetof(JobProcess, pid));
    member.rank = copy_at<int32_t>(bytes, at + offsetof(JobProcess, rank));
    member.claim_offset_bytes = at + offsetof(JobProcess, claim);
    member.claim = copy_at<uint32_t>(bytes, member.claim_offset_bytes);
    member.start_ticks = copy_at<uint64_t>(bytes, at + offsetof(JobProcess, start_ticks));
    return member;
}

}  // namespace

std::string job_segment_name(std::string_view run, int32_t attempt) {
    return std::string(run) + "." + std::to_string(attempt) + ".v" + std::to_string(kJobVersion) + "-" +
           std::to_string(sizeof(JobSegment)) + ".job";
}

Result<std::vector<JobMember>> read_job_segment(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(JobSegment)) {
        return Error("cut off, or of another version: " + std::to_string(bytes.size()) + " bytes instead of " +
                     std::to_string(sizeof(JobSegment)));
    }
    if (copy_at<uint64_t>(bytes, offsetof(JobSegment, magic)) != kJobMagic ||
        copy_at<uint64_t>(bytes, offsetof(JobSegment, bytes)) != sizeof(JobSegment)) {
        return Error("no job segment, or one of another version");
    }
    const uint32_t count = std::min(copy_at<uint32_t>(bytes, offsetof(JobSegment, process_count)), kMaxJobProcesses);
    std::vector<JobMember> members;
    for (uint32_t place = 0; place < count; ++place) {
        members.push_back(read_member(bytes, place));
    }
    return members;
}

}  // namespace titan::format
