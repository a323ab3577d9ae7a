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
        std::strcpy(page.processes[i].ring_name, "1000-7.ring");
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
    CHECK((*members)[1].ring_name == "1000-7.ring");
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

TEST_CASE("counts and names are claims") {
    std::vector<std::byte> bytes = sound_page(UINT32_MAX);
    auto& page = *reinterpret_cast<JobPage*>(bytes.data());
    std::strcpy(page.processes[0].ring_name, "../../etc/passwd");
    std::strcpy(page.processes[1].ring_name, "..");
    std::memset(page.processes[2].ring_name, 'x', sizeof(page.processes[2].ring_name));
    const auto members = read_job_page(bytes);
    REQUIRE(members);
    CHECK(members->size() == kMaxJobProcesses);
    CHECK((*members)[0].ring_name.empty());
    CHECK((*members)[1].ring_name.empty());
    CHECK((*members)[2].ring_name.size() == sizeof(JobProcess::ring_name));
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
            REQUIRE(member.ring_name.find('/') == std::string::npos);
            REQUIRE(member.claim_offset_bytes + sizeof(uint32_t) <= bytes.size());
        }
    }
}
