// The job segment as tools read it: whatever lies there.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "formats/ring/job_image.h"

using namespace titan::format;

namespace {

std::vector<std::byte> sound_segment(uint32_t processes) {
    std::vector<std::byte> bytes(sizeof(JobSegment));
    auto& segment = *reinterpret_cast<JobSegment*>(bytes.data());
    segment.magic = kJobMagic;
    segment.bytes = sizeof(JobSegment);
    segment.process_count = processes;
    for (uint32_t i = 0; i < kMaxJobProcesses && i < processes; ++i) {
        segment.processes[i].state = JobState::kRunning;
        segment.processes[i].pid = static_cast<int32_t>(1000 + i);
        segment.processes[i].rank = static_cast<int32_t>(i);
    }
    return bytes;
}

}  // namespace

TEST_CASE("the members of a job") {
    std::vector<std::byte> bytes = sound_segment(3);
    reinterpret_cast<JobSegment*>(bytes.data())->processes[1].claim = 77;
    const auto members = read_job_segment(bytes);
    REQUIRE(members);
    REQUIRE(members->size() == 3);
    CHECK((*members)[1].pid == 1001);
    CHECK((*members)[1].rank == 1);
    CHECK((*members)[1].claim == 77);
    uint32_t claim = 0;
    std::memcpy(&claim, bytes.data() + (*members)[1].claim_offset_bytes, sizeof(claim));
    CHECK(claim == 77);
}

TEST_CASE("segments that are none") {
    CHECK(read_job_segment({}).error().text().starts_with("cut off"));
    std::vector<std::byte> bytes = sound_segment(1);
    bytes.pop_back();
    CHECK(read_job_segment(bytes).error().text().starts_with("cut off"));
    bytes = sound_segment(1);
    bytes[0] = std::byte{0};
    CHECK(read_job_segment(bytes).error().text() == "no job segment, or one of another version");
    bytes = sound_segment(1);
    reinterpret_cast<JobSegment*>(bytes.data())->bytes = 8;
    CHECK_FALSE(read_job_segment(bytes));
}

TEST_CASE("a count is a claim") {
    const auto members = read_job_segment(sound_segment(UINT32_MAX));
    REQUIRE(members);
    CHECK(members->size() == kMaxJobProcesses);
}

TEST_CASE("version and size are in the name") {
    CHECK(job_segment_name("run", 3) == "run.3.v1-" + std::to_string(sizeof(JobSegment)) + ".job");
}

TEST_CASE("random bytes are read without harm") {
    std::mt19937_64 random(5);
    for (int round = 0; round < 300; ++round) {
        std::vector<std::byte> bytes = sound_segment(static_cast<uint32_t>(random()));
        const size_t first = round % 2 == 0 ? 16 : 0;  // with and without a sound beginning
        for (size_t i = first; i < bytes.size(); ++i) {
            bytes[i] = static_cast<std::byte>(random());
        }
        const auto members = read_job_segment(bytes);
        REQUIRE(static_cast<bool>(members) == (first != 0));
        for (const JobMember& member : members ? *members : std::vector<JobMember>()) {
            REQUIRE(member.claim_offset_bytes + sizeof(uint32_t) <= bytes.size());
        }
    }
}
