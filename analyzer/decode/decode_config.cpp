#include "decode_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "made_texts.h"

namespace titan::analyzer {
namespace {

// Variables that say which rank a process is, or what only the recorder does: they are no settings of the job.
bool is_of_the_rank(const std::string& name) {
    return name.starts_with("TITANTRACE") || name.starts_with("TORCHELASTIC_") || name == "CUDA_VISIBLE_DEVICES";
}

// NCCL_VERSION_CODE: 22345 is 2.23.45, 2708 is 2.7.8 (nccl.h).
std::string nccl_version_text(uint32_t code) {
    const uint32_t major_unit = code >= 10000 ? 10000 : 1000;
    return fmt::format("{}.{}.{}", code / major_unit, code % major_unit / 100, code % 100);
}

std::string cuda_version_text(int32_t code) { return fmt::format("{}.{}", code / 1000, code % 1000 / 10); }

}  // namespace

void decode_config(const OpenedSource& opened, Process& process) {
    if (opened.environment.empty()) {
        return;  // a ring alone: what is not told there need not be unset
    }
    std::vector<std::pair<std::string, std::string>> config;
    std::copy_if(opened.environment.begin(), opened.environment.end(), std::back_inserter(config),
                 [](const auto& variable) { return !is_of_the_rank(variable.first); });
    const format::RingHeader& header = opened.image.header();
    if (header.nccl_version != 0) {
        config.emplace_back("version of NCCL", nccl_version_text(header.nccl_version));
    }
    if (header.driver_version > 0) {
        config.emplace_back("CUDA version of the driver", cuda_version_text(header.driver_version));
    }
    std::sort(config.begin(), config.end());
    MadeTexts texts(process.texts);
    for (const auto& [name, value] : config) {
        process.config.emplace_back(texts.add(name), texts.add(value));
    }
}

}  // namespace titan::analyzer
