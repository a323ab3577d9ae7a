// Names from ELF files, by elfutils.
#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "host/words.h"
#include "named_stacks.h"

namespace titan::analyzer {
namespace {

constexpr Dwfl_Callbacks callbacks(decltype(Dwfl_Callbacks::find_debuginfo) find_debug_file) {
    return {.find_elf = dwfl_build_id_find_elf,
            .find_debuginfo = find_debug_file,
            .section_address = dwfl_offline_section_address,
            .debuginfo_path = nullptr};
}
constexpr Dwfl_Callbacks kEverywhere = callbacks(dwfl_standard_find_debuginfo);
constexpr Dwfl_Callbacks kNearby = callbacks(dwfl_build_id_find_debuginfo);  // never asks a server

struct FreeDies {
    void operator()(Dwarf_Die* dies) const { std::free(dies); }
};

// Around the code at that address, innermost first, each within the next.
std::vector<Dwarf_Die> scopes_at(Dwarf_Die* unit, Dwarf_Addr address) {
    Dwarf_Die* dies = nullptr;
    int count = dwarf_getscopes(unit, address, &dies);
    std::unique_ptr<Dwarf_Die, FreeDies> found(count > 0 ? dies : nullptr);
    if (found == nullptr) {
        return {};
    }
    // After an inlined function, that list follows the nesting of the source, not of the code.
    Dwarf_Die innermost = *found;
    count = dwarf_getscopes_die(&innermost, &dies);
    found.reset(count > 0 ? dies : nullptr);
    return found == nullptr ? std::vector<Dwarf_Die>() : std::vector<Dwarf_Die>(dies, dies + count);
}

std::string function_of(Dwarf_Die* scope) {
    Dwarf_Attribute attribute;
    const char* name = dwarf_formstring(dwarf_attr_integrate(scope, DW_AT_linkage_name, &attribute));
    name = name != nullptr ? name : dwarf_diename(scope);
    return name != nullptr ? demangled(name) : "an inlined function";
}

uint64_t number_of(Dwarf_Die* scope, unsigned name) {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    return dwarf_formudata(dwarf_attr(scope, name, &attribute), &value) == 0 ? value : 0;
}

// A place in there tells nothing about the program.
bool is_of_the_system(const std::string& file) {
    return file.starts_with("/usr/include/") || file.find("/include/c++/") != std::string::npos;
}

// A line of the C library tells nothing about the program either. Debian compresses these lines, so that all of them
// are unpacked for one.
bool is_c_library(std::string_view path) { return path.substr(path.rfind('/') + 1).starts_with("libc.so"); }

std::string call_file(Dwarf_Die* unit, Dwarf_Die* scope) {
    Dwarf_Files* files = nullptr;
    size_t count = 0;
    const char* const name = dwarf_getsrcfiles(unit, &files, &count) == 0
                                 ? dwarf_filesrc(files, number_of(scope, DW_AT_call_file), nullptr, nullptr)
                                 : nullptr;
    return name != nullptr ? printable(name) : std::string();
}

}  // namespace

std::string demangled(const char* name) {
    int status = 0;
    char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string result = status == 0 && text != nullptr ? text : name;
    std::free(text);
    return printable(result);
}

// A file, at its own addresses.
class Symbols::File {
  public:
    File(const std::string& path, const format::StackModule& recorded, Search search)
        : is_c_library_(is_c_library(path)) {
        dwfl_ = dwfl_begin(search == Search::kNearby ? &kNearby : &kEverywhere);
        std::error_code unseen;
        // Any path may be in a dump: one that is no regular file could block for ever.
        if (dwfl_ == nullptr || !std::filesystem::is_regular_file(path, unseen)) {
            problem_ = "not on this machine";
            return;
        }
        dwfl_report_begin(dwfl_);
        module_ = dwfl_report_elf(dwfl_, path.c_str(), path.c_str(), -1, 0, true);
        dwfl_report_end(dwfl_, nullptr, nullptr);
        const unsigned char* bits = nullptr;
        GElf_Addr place = 0;
        const int size = module_ == nullptr ? 0 : dwfl_module_build_id(module_, &bits, &place);
        if (module_ == nullptr) {
            problem_ = "cannot be read as an ELF file";
        } else if (recorded.build_id_bytes == 0 || size <= 0) {
            problem_ = "has no build id, so it may be another file; its names are used";
        } else if (static_cast<uint32_t>(size) != recorded.build_id_bytes ||
                   std::memcmp(bits, recorded.build_id, recorded.build_id_bytes) != 0) {
            problem_ = "is a different build from the one that ran";
            module_ = nullptr;
        }
    }
    ~File() { dwfl_end(dwfl_); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    void name(StackSite& site, bool is_return) {
        const auto [known, inserted] = named_.try_emplace({site.in_module, is_return});
        if (inserted && module_ != nullptr) {
            look_up(site, is_return);
            known->second = {site.function, site.file, site.line, site.inlined};
        }
        site.function = known->second.function;
        site.file = known->second.file;
        site.line = known->second.line;
        site.inlined = known->second.inlined;
    }
    const std::string& problem() const { return problem_; }

  private:
    void look_up(StackSite& site, bool is_return) const {
        const GElf_Addr address = site.in_module - (is_return ? 1 : 0);
        GElf_Off offset = 0;
        GElf_Sym symbol;
        const char* const function =
            dwfl_module_addrinfo(module_, address, &offset, &symbol, nullptr, nullptr, nullptr);
        // The nearest symbol before a gap says nothing about what lies in the gap.
        if (function != nullptr && (symbol.st_size == 0 || offset <= symbol.st_size)) {
            site.function = demangled(function);
        }
        if (is_c_library_) {
            return;
        }
        int line = 0;
        Dwfl_Line* const source = dwfl_module_getsrc(module_, address);
        if (const char* file =
                source == nullptr ? nullptr : dwfl_lineinfo(source, nullptr, &line, nullptr, nullptr, nullptr)) {
            site.file = printable(file);
            site.line = line;
            unfold(site, address);
        }
    }

    // That line is in the innermost inlined function. Each inlined function knows where the next one out called it.
    void unfold(StackSite& site, GElf_Addr address) const {
        Dwarf_Addr bias = 0;
        Dwarf_Die* const unit = dwfl_module_addrdie(module_, address, &bias);
        if (unit == nullptr) {
            return;
        }
        for (Dwarf_Die& scope : scopes_at(unit, address - bias)) {
            const int tag = dwarf_tag(&scope);
            if (tag == DW_TAG_subprogram) {
                break;
            }
            if (tag == DW_TAG_inlined_subroutine) {
                if (!is_of_the_system(site.file)) {
                    site.inlined.push_back({function_of(&scope), site.file, site.line});
                }
                site.file = call_file(unit, &scope);
                site.line = static_cast<int>(number_of(&scope, DW_AT_call_line));
            }
        }
    }

    struct Name {
        std::string function;
        std::string file;
        int line = 0;
        std::vector<InlinedSite> inlined;
    };
    std::map<std::pair<uint64_t, bool>, Name> named_;
    Dwfl* dwfl_ = nullptr;
    Dwfl_Module* module_ = nullptr;
    std::string problem_;
    bool is_c_library_ = false;
};

struct Symbols::Impl {
    Search search;
    std::mutex mutex;
    using Key = std::pair<std::string, std::string>;  // path, build id
    std::map<Key, std::unique_ptr<File>> files;
    std::vector<std::string> problems;

    File& file(const format::StackModule& module, const std::string& path) {
        const uint32_t size = std::min<uint32_t>(module.build_id_bytes, sizeof(module.build_id));
        Key key{path, std::string(reinterpret_cast<const char*>(module.build_id), size)};
        auto& file = files[key];
        if (!file) {
            file = std::make_unique<File>(path, module, search);
            if (!file->problem().empty() && path != "[vdso]") {
                problems.push_back(fmt::format("{} {}", printable(path), file->problem()));
            }
        }
        return *file;
    }
};

Symbols::Symbols(Search search) : impl_(std::make_unique<Impl>()) { impl_->search = search; }
Symbols::~Symbols() = default;

void Symbols::name(const format::StackModule& module, const std::string& path, StackSite& site, bool is_return) {
    const std::lock_guard lock(impl_->mutex);
    impl_->file(module, path).name(site, is_return);
}

std::vector<std::string> Symbols::problems() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->problems;
}

}  // namespace titan::analyzer
