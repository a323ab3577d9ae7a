#include "digest_sections.h"

#include <algorithm>
#include <map>

#include "formats/container/packed.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxProblems = 64;

}  // namespace

std::vector<std::byte> pack_problems(std::vector<std::string> problems) {
    format::Packer packer;
    problems.resize(std::min(problems.size(), kMaxProblems));
    packer.count(problems.size(), 1);
    for (const std::string& problem : problems) {
        packer.text(problem);
    }
    return packer.bytes();
}

void unpack_problems(std::span<const std::byte> bytes, std::vector<std::string>& problems) {
    format::Unpacker unpacker(bytes);
    const size_t count = std::min(unpacker.count(0, 1), kMaxProblems);
    for (size_t i = 0; i < count && unpacker.good(); ++i) {
        std::string problem;
        unpacker.text(problem);
        problems.push_back(printable(problem));
    }
}

std::vector<std::byte> pack_groups(const DigestGroups& groups) {
    format::Packer packer;
    packer.count(groups.size(), 2);
    for (const auto& [id, ranks] : std::map(groups.begin(), groups.end())) {
        packer.number(id);
        packer.count(ranks.size(), 1);
        uint64_t before = 0;
        for (const int32_t rank : ranks) {
            packer.delta(rank, before);
        }
    }
    return packer.bytes();
}

void unpack_groups(std::span<const std::byte> bytes, DigestGroups& groups) {
    format::Unpacker unpacker(bytes);
    const size_t count = unpacker.count(0, 2);
    for (size_t i = 0; i < count && unpacker.good(); ++i) {
        uint64_t id = 0;
        unpacker.number(id);
        std::vector<int32_t> ranks(unpacker.count(0, 1));
        uint64_t before = 0;
        for (int32_t& rank : ranks) {
            unpacker.delta(rank, before);
        }
        if (unpacker.good()) {
            groups[id] = std::move(ranks);
        }
    }
}

}  // namespace titan::analyzer
