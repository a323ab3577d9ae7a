// Functions in which a thread waits for other ranks outside NCCL: in Gloo, for a key of c10d's store, in MPI. No call
// of them is recorded; stacks show them. any-thread, no allocation.
#pragma once

#include <cstddef>
#include <string_view>

namespace titan::format {

struct WaitOutsideNccl {
    std::string_view begin;  // of a function's demangled name
    std::string_view what;
};

// Functions of PyTorch 2.0 to 2.13 (torch/csrc/distributed/c10d), gloo and the MPI standard. The first that is in a
// stack counts; a wait of Gloo may hold one for the store inside, where it connects to its peers.
inline constexpr WaitOutsideNccl kWaitsOutsideNccl[] = {
    {"c10d::ProcessGroupGloo::", "Gloo"},
    {"gloo::", "Gloo"},
    {"c10d::Work::wait(", "a collective of a CPU backend"},  // NCCL's work has a wait of its own
    {"c10d::ProcessGroupMPI::", "MPI"},
    {"MPI_", "MPI"},
    {"PMPI_", "MPI"},
    {"c10d::TCPStore::", "the store"},
    {"c10d::detail::TCPClient::", "the store"},
    {"c10d::PrefixStore::", "the store"},
    {"c10d::FileStore::", "the store"},
    {"c10d::HashStore::", "the store"},
};

// Whether the demangled name of a function begins so, asked of its name in the symbol table (Itanium C++ ABI, "nested
// names"; a C function's name is plain).
constexpr bool symbol_begins(std::string_view symbol, std::string_view name) {
    if (name.find("::") == std::string_view::npos) {
        return symbol.starts_with(name);
    }
    if (!symbol.starts_with("_ZN")) {
        return false;
    }
    symbol.remove_prefix(3);
    while (symbol.starts_with('K') || symbol.starts_with('V')) {  // const, volatile
        symbol.remove_prefix(1);
    }
    while (!name.empty()) {
        const std::string_view part = name.substr(0, name.find_first_of(":("));
        size_t length = 0;
        while (!symbol.empty() && symbol.front() >= '0' && symbol.front() <= '9') {
            length = length * 10 + static_cast<size_t>(symbol.front() - '0');
            symbol.remove_prefix(1);
        }
        if (length != part.size() || !symbol.starts_with(part)) {
            return false;
        }
        symbol.remove_prefix(part.size());
        name.remove_prefix(part.size());
        name.remove_prefix(name.starts_with("::") ? 2 : name.size());
    }
    return true;
}

}  // namespace titan::format
