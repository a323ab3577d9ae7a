#include "unrecorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "formats/ring/call_sites_image.h"
#include "formats/ring/stacks_image.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

struct Library {
    std::string_view file;  // start of its file's name
    std::string_view name;
};

// NVSHMEM's modules, which its initialization opens: its library alone says nothing, because PyTorch's wheels bring and
// load it. torchcomms' extension with NCCLX linked into it, MSCCL++.
constexpr auto kLibraries = std::to_array<Library>({
    {"nvshmem_bootstrap_", "NVSHMEM"},
    {"nvshmem_transport_", "NVSHMEM"},
    {"_comms_ncclx", "NCCLX"},
    {"libmscclpp", "MSCCL++"},
});

void add_library(std::string_view path, std::vector<std::string>& found) {
    const std::string file = std::filesystem::path(path).filename().string();
    for (const Library& library : kLibraries) {
        const bool told = std::any_of(found.begin(), found.end(),
                                      [&](const std::string& text) { return text.starts_with(library.name); });
        if (file.starts_with(library.file) && !told) {
            found.push_back(fmt::format("{} ({})", library.name, printable(file)));
        }
    }
}

}  // namespace

std::vector<std::string> find_unrecorded(const OpenedSource& opened, const Process& process) {
    std::vector<std::string> found;
    if (const auto stacks = format::StacksImage::open(opened.stacks)) {
        for (const format::StackModule& module : stacks->modules()) {
            add_library(stacks->text(module.path), found);
        }
    }
    const format::CallSitesImage sites(opened.image.call_sites());
    for (const format::StackModule& module : sites.modules()) {
        add_library(sites.text(module.path), found);
    }
    if (std::any_of(process.entries.begin(), process.entries.end(),
                    [](const Entry& entry) { return entry.kind == OpKind::kDevCommCreate; })) {
        found.emplace_back("operations that kernels start themselves (ncclDevCommCreate)");
    }
    return found;
}

}  // namespace titan::analyzer
