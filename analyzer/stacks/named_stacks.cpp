#include "named_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "formats/ring/stacks_image.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

const format::StackModule* module_of(const std::vector<format::StackModule>& modules, uint64_t address) {
    const auto next =
        std::upper_bound(modules.begin(), modules.end(), address,
                         [](uint64_t at, const format::StackModule& module) { return at < module.begin; });
    return next == modules.begin() || address >= std::prev(next)->end ? nullptr : &*std::prev(next);
}

// Names that the whole process shares.
struct Names {
    std::vector<format::StackModule> modules;           // sorted by address
    std::unordered_map<uint64_t, uint32_t> exported{};  // frame address -> text
};

ThreadStack read_thread(const format::StacksImage& image, const Names& names, const format::StackThread& raw,
                        Symbols& symbols) {
    ThreadStack thread;
    thread.tid = raw.tid;
    thread.name = printable(image.text(raw.name));
    thread.state = raw.state >= ' ' && raw.state < 127 ? raw.state : '?';
    thread.wait_channel = printable(image.text(raw.wait_channel));
    thread.system_call = raw.system_call;
    thread.cpu_ns = raw.cpu_ns;
    thread.outcome = raw.outcome;
    for (const uint64_t frame : image.frames(raw)) {
        const uint64_t address = frame & ~format::kInterrupted;
        StackSite site;
        site.address = address;
        site.interrupted = address != frame;
        if (const format::StackModule* module = module_of(names.modules, address)) {
            const std::string path(image.text(module->path));
            site.module = printable(std::filesystem::path(path).filename().string());
            site.in_module = address - module->bias;
            site.of_library = is_library(path);
            symbols.name(*module, path, site, !thread.sites.empty() && !site.interrupted);
        }
        const auto exported = names.exported.find(address);
        if (site.function.empty() && exported != names.exported.end()) {
            site.function = demangled(std::string(image.text(exported->second)).c_str());
        }
        thread.sites.push_back(std::move(site));
    }
    for (const format::StackPython& raw_site : image.python(raw)) {
        thread.python.push_back({printable(image.text(raw_site.file)), printable(image.text(raw_site.function)),
                                 raw_site.line, raw_site.is_entry != 0, raw_site.native});
    }
    thread.python_cut = raw.python_cut != 0;
    thread.held_gil = raw.held_gil != 0;
    thread.merged = merge(thread);
    return thread;
}

}  // namespace

Result<ProcessStacks> read_stacks(std::span<const std::byte> bytes, Symbols& symbols,
                                  const std::function<bool(const format::StackThread&)>& wanted) {
    const auto image = format::StacksImage::open(bytes);
    if (!image) {
        return image.error();
    }
    ProcessStacks stacks;
    stacks.took_ns = image->header().took_ns;
    stacks.python = printable(image->text(image->header().python));
    if (!stacks.python.empty() && !stacks.python.starts_with("CPython")) {
        stacks.notes.push_back(stacks.python);
    }
    if (const std::string_view note = image->text(image->header().note); !note.empty()) {
        stacks.notes.push_back(printable(note));
    }
    if (image->header().threads_left_out != 0) {
        stacks.notes.push_back(fmt::format("{} more threads are not in the dump", image->header().threads_left_out));
    }
    Names names{image->modules()};
    std::sort(names.modules.begin(), names.modules.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (const format::StackName& name : image->names()) {
        names.exported.emplace(name.address, name.name);
    }
    // No frame belongs to two threads: a damaged image must not make many out of few.
    uint64_t left = bytes.size() / sizeof(format::StackFrame);
    for (const format::StackThread& thread : image->threads()) {
        const uint64_t claimed = uint64_t{thread.frame_count} + thread.python_count;
        if (claimed > left) {
            stacks.notes.emplace_back("the stacks are damaged: some threads are left out");
            break;
        }
        left -= claimed;
        stacks.python_threads += thread.python_count != 0 ? 1 : 0;
        if (wanted(thread) || thread.held_gil != 0) {
            stacks.threads.push_back(read_thread(*image, names, thread, symbols));
        }
    }
    return stacks;
}

std::string state_text(char state, const std::string& wait_channel) {
    std::string text = state == 'R'   ? "runs"
                       : state == 'D' ? "waits and cannot be interrupted"
                       : state == 'T' ? "is stopped"
                       : state == 't' ? "is held by a debugger"
                       : state == 'Z' ? "has ended"
                                      : "waits";
    if (!wait_channel.empty()) {
        text += fmt::format(" in {}", wait_channel);
    }
    return text;
}

namespace {

std::string line_text(const std::string& file, int line) {
    return file.empty() ? std::string()
                        : fmt::format(" at {}:{}", std::filesystem::path(file).filename().string(), line);
}

}  // namespace

std::string site_text(const StackSite& site) {
    const std::string text = (!site.function.empty() ? site.function
                              : site.module.empty()  ? fmt::format("0x{:x}", site.address)
                                                     : fmt::format("0x{:x}", site.in_module)) +
                             line_text(site.file, site.line);
    return site.module.empty() ? text : text + fmt::format(" ({})", site.module);
}

std::string site_text(const StackSite& site, const InlinedSite& inlined) {
    return fmt::format("{}{} ({}, inlined)", inlined.function, line_text(inlined.file, inlined.line), site.module);
}

std::string site_text(const PythonSite& site) {
    const std::filesystem::path path(site.file);
    const std::string name = path.filename().string();
    // __init__.py tells nothing without its directory.
    const std::string file =
        name.starts_with("__") && path.has_parent_path() ? (path.parent_path().filename() / name).string() : name;
    return site.file.empty() ? "a Python frame that was gone"
                             : fmt::format("{} at {}:{}", site.function, file, site.line);
}

std::string no_stack_text(const ThreadStack& thread) {
    switch (thread.outcome) {
        case format::StackOutcome::kNoAnswer:
            return "no stack: it took no signal in time and " + state_text(thread.state, thread.wait_channel);
        case format::StackOutcome::kBlocksSignal:
            return "no stack: it blocks all signals, and " + state_text(thread.state, thread.wait_channel);
        case format::StackOutcome::kNotAsked: return "no native stack was taken";
        case format::StackOutcome::kOurs: return "a thread of titantrace";
        default: return "no stack";
    }
}

// --- stacks as a tree

void add_stack(StackNode& root, int rank, const std::vector<std::string>& outermost_first) {
    StackNode* node = &root;
    const auto count = [&](StackNode& of) {
        of.ranks.insert(rank);
        ++of.threads;
    };
    count(root);
    for (const std::string& text : outermost_first) {
        auto found = std::find_if(node->children.begin(), node->children.end(),
                                  [&](const StackNode& child) { return child.text == text; });
        if (found == node->children.end()) {
            found = node->children.insert(found, StackNode{text, {}, 0, 0, {}});
        }
        node = &*found;
        count(*node);
    }
    ++node->ending;
}

namespace {

void sort_children(StackNode& node) {
    std::stable_sort(node.children.begin(), node.children.end(),
                     [](const StackNode& a, const StackNode& b) { return a.threads > b.threads; });
    for (StackNode& child : node.children) {
        sort_children(child);
    }
}

}  // namespace

StackNode merge_stacks(const std::vector<ProcessStacks>& all, bool all_threads) {
    StackNode root;
    for (const ProcessStacks& process : all) {
        if (process.threads.empty()) {
            add_stack(root, process.rank,
                      {"(no stacks: " + (process.notes.empty() ? "" : process.notes.front()) + ")"});
        }
        for (size_t i = 0; i < process.threads.size() && (all_threads || i == 0); ++i) {
            const ThreadStack& thread = process.threads[i];
            std::vector<std::string> texts = thread.merged.frames;
            std::reverse(texts.begin(), texts.end());
            if (texts.empty()) {
                texts.push_back("(" + no_stack_text(thread) + ")");
            }
            add_stack(root, process.rank, texts);
        }
    }
    sort_children(root);
    return root;
}

}  // namespace titan::analyzer
