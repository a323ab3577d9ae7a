#include "decode_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <span>

#include "formats/layout/label_names.h"
#include "formats/ring/stacks_image.h"
#include "host/words.h"
#include "made_texts.h"

namespace titan::analyzer {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

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

void add_versions(const format::RingHeader& header, Settings& settings) {
    if (header.nccl_version != 0) {
        settings.emplace_back("version of NCCL", nccl_version_text(header.nccl_version));
    }
    if (header.driver_version > 0) {
        settings.emplace_back("CUDA version of the driver", cuda_version_text(header.driver_version));
    }
}

struct MachineFact {
    std::string_view key;  // FORMAT.md, section 5
    std::string_view name;
};
constexpr auto kMachineFacts = std::to_array<MachineFact>({
    {"processor", "processor of the host"},
    {"kernel", "Linux kernel"},
    {"gpu_driver", "NVIDIA driver"},
    {"gpus", "GPUs of the host"},
    {"torch", "PyTorch"},
    {"infiniband", "RDMA devices of the host"},
});

// Null: none of these.
const MachineFact* fact_of(std::span<const MachineFact> facts, std::string_view key) {
    const auto fact = std::find_if(facts.begin(), facts.end(), [&](const MachineFact& row) { return row.key == key; });
    return fact == facts.end() ? nullptr : &*fact;
}

void add_machine(const OpenedSource& opened, Settings& settings) {
    for (const auto& [key, value] : opened.machine) {
        const MachineFact* const fact = fact_of(kMachineFacts, key);
        if (fact != nullptr && !value.empty()) {
            settings.emplace_back(fact->name, value);
        }
    }
    if (opened.processors.allowed != 0) {
        settings.emplace_back("processors that the process may use", std::to_string(opened.processors.allowed));
    }
}

// Labels that the tracer sets, its Python package, or the user.
constexpr auto kFactLabels = std::to_array<MachineFact>({
    {format::kCommitLabel, "git commit of the program"},
    {format::kTorchLabel, "PyTorch"},
    {format::kGpuDriverLabel, "NVIDIA driver"},
});

void add_labels(const Process& process, Settings& settings) {
    for (const auto& [key, value] : process.labels) {
        const MachineFact* const fact = fact_of(kFactLabels, process.text(key));
        const auto is_it = [fact](const auto& setting) { return setting.first == fact->name; };
        if (fact != nullptr && std::none_of(settings.begin(), settings.end(), is_it)) {
            settings.emplace_back(fact->name, process.text(value));
        }
    }
}

// Libraries of which all ranks should have the same build: starts of file names.
constexpr auto kLibraries =
    std::to_array<std::string_view>({"libnccl.so", "libnccl-net", "libcuda.so", "libcudart.so", "libtorch_cuda.so",
                                     "libtorch_cpu.so", "libc10_cuda.so", "librdmacm.so", "libibverbs.so"});

void add_builds(const OpenedSource& opened, Settings& settings) {
    constexpr size_t kShownBytes = 6;  // of a build id, as git shows of a commit
    const auto stacks = format::StacksImage::open(opened.stacks);
    if (!stacks) {
        return;
    }
    std::map<std::string, std::set<std::string>> builds;  // by file; a process may have two of a name
    for (const format::StackModule& module : stacks->modules()) {
        const std::string file = printable(std::filesystem::path(stacks->text(module.path)).filename().string());
        const bool wanted = std::any_of(kLibraries.begin(), kLibraries.end(),
                                        [&](std::string_view library) { return file.starts_with(library); });
        const size_t bytes = std::min<size_t>({module.build_id_bytes, sizeof(module.build_id), kShownBytes});
        if (wanted && bytes != 0) {
            builds[file].insert(fmt::format("{:02x}", fmt::join(module.build_id, module.build_id + bytes, "")));
        }
    }
    for (const auto& [file, ids] : builds) {
        settings.emplace_back("build of " + file, fmt::format("{}", fmt::join(ids, " and ")));
    }
}

}  // namespace

void decode_config(const OpenedSource& opened, Process& process) {
    // A ring alone: what is not told there need not be unset. Whole runs are read from journals: these have versions.
    if (opened.environment.empty() && !opened.source.is_journal) {
        return;
    }
    Settings settings;
    std::copy_if(opened.environment.begin(), opened.environment.end(), std::back_inserter(settings),
                 [](const auto& variable) { return !is_of_the_rank(variable.first); });
    add_versions(opened.image.header(), settings);
    add_machine(opened, settings);
    add_builds(opened, settings);
    add_labels(process, settings);
    std::sort(settings.begin(), settings.end());
    MadeTexts texts(process.texts);
    for (const auto& [name, value] : settings) {
        process.config.emplace_back(texts.add(name), texts.add(value));
    }
}

void decode_children(const OpenedSource& opened, Process& process) {
    process.out_of_memory_kills = opened.out_of_memory_kills;
    MadeTexts texts(process.texts);
    for (const DumpedChild& dumped : opened.children) {
        ChildProcess& child = process.children.emplace_back();
        child.pid = dumped.pid;
        child.name = texts.add(dumped.name);
        child.state = dumped.state;
        child.wait_channel = texts.add(dumped.wait_channel);
        child.cpu_ns = dumped.cpu_ns;
        child.ended_ns = dumped.ended_ns;
        child.wait_status = dumped.wait_status;
        for (const std::string& frame : dumped.frames) {
            child.frames.push_back(texts.add(frame));
        }
    }
}

}  // namespace titan::analyzer
