// The job page as tools read it: whatever lies there.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "formats/job_image.h"

using namespace titan::format;

namespace {

std::vector<std::byte> sound_page(uint32_t processes) {
    std::vector<std::byte> bytes(sizeof(JobPage));
    auto& page = *reinterpret_cast<JobPage*>(bytes.data());
    page.magic = kJobMagic;
    page.bytes = sizeof(JobPage);
    page.process_count = processes;
    for (uint32_t i = 0; i < kMaxJobProcesses && i < processes; ++i) {
        page.processes[i].state = JobState::kRunning;
        page.processes[i].pid = static_cast<int32_t>(1000 + i);
        page.processes[i].rank = static_cast<int32_t>(i);
    }
    return bytes;
}

}  // namespace

TEST_CASE("the members of a job") {
    std::vector<std::byte> bytes = sound_page(3);
    reinterpret_cast<JobPage*>(bytes.data())->processes[1].claim = 77;
    const auto members = read_job_page(bytes);
    REQUIRE(members);
    REQUIRE(members->size() == 3);
    CHECK((*members)[1].pid == 1001);
    CHECK((*members)[1].rank == 1);
    CHECK((*members)[1].claim == 77);
    uint32_t claim = 0;
    std::memcpy(&claim, bytes.data() + (*members)[1].claim_offset_bytes, sizeof(claim));
    CHECK(claim == 77);
}

TEST_CASE("pages that are none") {
    CHECK(read_job_page({}).error().text().starts_with("cut off"));
    std::vector<std::byte> bytes = sound_page(1);
    bytes.pop_back();
    CHECK(read_job_page(bytes).error().text().starts_with("cut off"));
    bytes = sound_page(1);
    bytes[0] = std::byte{0};
    CHECK(read_job_page(bytes).error().text() == "no job page, or one of another version");
    bytes = sound_page(1);
    reinterpret_cast<JobPage*>(bytes.data())->bytes = 8;
    CHECK_FALSE(read_job_page(bytes));
}

TEST_CASE("a count is a claim") {
    const auto members = read_job_page(sound_page(UINT32_MAX));
    REQUIRE(members);
    CHECK(members->size() == kMaxJobProcesses);
}

TEST_CASE("version and size are in the name") {
    CHECK(job_page_name("run", 3) == "run.3.v2-" + std::to_string(sizeof(JobPage)) + ".job");
}

TEST_CASE("random bytes are read without harm") {
    std::mt19937_64 random(5);
    for (int round = 0; round < 300; ++round) {
        std::vector<std::byte> bytes = sound_page(static_cast<uint32_t>(random()));
        const size_t first = round % 2 == 0 ? 16 : 0;  // with and without a sound beginning
        for (size_t i = first; i < bytes.size(); ++i) {
            bytes[i] = static_cast<std::byte>(random());
        }
        const auto members = read_job_page(bytes);
        REQUIRE(static_cast<bool>(members) == (first != 0));
        for (const JobMember& member : members ? *members : std::vector<JobMember>()) {
            REQUIRE(member.claim_offset_bytes + sizeof(uint32_t) <= bytes.size());
        }
    }
}
