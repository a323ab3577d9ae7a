// Positions of a process's threads when it was dumped, with names for their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dumped_child.h"
#include "formats/layout/stacks_layout.h"
#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

// A function that the compiler has put into the one around it.
struct InlinedSite {
    std::string function;
    std::string file;
    int line = 0;
};

struct StackSite {
    uint64_t address = 0;
    bool interrupted = false;               // interrupted by a signal: it did not call the frame inside it
    std::string module;                     // file name, empty for code of no file (JIT)
    bool of_library = false;                // the file came with the system, the vendor or a package
    uint64_t in_module = 0;                 // address in that file
    std::string function;                   // demangled, empty where nothing tells
    std::string file;                       // source file, if there is debug information
    int line = 0;                           // line in that function, not in those inlined into it
    std::vector<InlinedSite> inlined = {};  // functions inlined at the address, innermost first; none of system headers
};

struct PythonSite {
    std::string file;
    std::string function;
    int line = 0;
    bool is_entry = false;  // outermost of one run of the interpreter's C function
    uint32_t native = 0;    // entry frame: the number of that run's frame in `sites` + 1, 0 unknown
};

// Native and Python frames merged, in words, innermost first, without the frames of our crash handler. Indices are
// kNoIndex if there is none.
struct MergedStack {
    std::vector<std::string> frames;
    std::vector<std::string> libraries;  // origin of each frame ("libcuda.so.1", "torch"); empty: the program
    uint32_t python = kNoIndex;          // the innermost Python frame
    // The innermost one of the program itself; where that is `python`, the one that called it from another file.
    uint32_t caller = kNoIndex;
    uint32_t native = kNoIndex;  // the innermost native frame that tells something; not outside of `python`
};

struct ThreadStack {
    int32_t tid = 0;
    std::string name;
    char state = '?';
    std::string wait_channel;
    int64_t system_call = -2;
    uint64_t cpu_ns = 0;
    format::StackOutcome outcome = format::StackOutcome::kNotAsked;
    std::vector<StackSite> sites;    // innermost first
    std::vector<PythonSite> python;  // innermost first
    bool python_cut = false;
    bool held_gil = false;
    MergedStack merged;
};

struct ProcessStacks {
    int rank = -1;
    int32_t pid = 0;
    std::string host;
    uint64_t took_ns = 0;
    std::string python;                 // "CPython 3.12.4", or why its stacks are missing; empty: none
    std::vector<ThreadStack> threads;   // the main thread first
    uint32_t python_threads = 0;        // how many run Python; of all, wanted or not
    std::vector<DumpedChild> children;  // that live
    std::vector<std::string> notes;     // says what could not be seen, and why
};

// Names addresses of one process by the files that it had loaded, where they lie here and are still the same (by build
// id): symbol tables, separate debug files, and source lines where there is debug information. One instance may serve
// many processes: a file is read once, an address named once. Thread-safe.
class Symbols {
  public:
    // Places to look for separate debug files. kNearby: only those that cost next to nothing.
    enum class Search { kNearby, kEverywhere };
    explicit Symbols(Search search);
    ~Symbols();
    Symbols(const Symbols&) = delete;
    Symbols& operator=(const Symbols&) = delete;

    // `is_return`: the address follows a call, whose line is wanted.
    void name(const format::StackModule& module, const std::string& path, StackSite& site, bool is_return);
    // Files that could not be used: "libfoo.so: not on this machine".
    std::vector<std::string> problems() const;

  private:
    class File;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Safe to print; a name that is not mangled stays as it is.
std::string demangled(const char* name);

// The stacks in that image (formats/layout/stacks_layout.h), of the wanted threads and of one that held the GIL.
Result<ProcessStacks> read_stacks(std::span<const std::byte> image, Symbols& symbols,
                                  const std::function<bool(const format::StackThread&)>& wanted);

// "waits in futex", "runs".
std::string state_text(char state, const std::string& wait_channel);
std::string site_text(const StackSite& site);
std::string site_text(const StackSite& site, const InlinedSite& inlined);
std::string site_text(const PythonSite& site);
bool is_interpreter(const StackSite& site);
bool is_library(const std::string& path);
// Both kinds of frames as one, innermost first: in the place of a run of the interpreter's C function, told by the
// tracer or by its name, stand the Python frames of that run, and the interpreter's own frames are left out. Where the
// two do not fit together, all native frames come first. `native_cut`: outer runs may be missing.
struct Interleaving {
    struct Frame {
        bool python;
        uint32_t number;  // number in its list
    };
    std::vector<Frame> frames;
    bool fits = false;
};
Interleaving interleave(const std::vector<StackSite>& native, const std::vector<PythonSite>& python, bool native_cut);
MergedStack merge(const ThreadStack& thread);
// Explains why a thread has no stack.
std::string no_stack_text(const ThreadStack& thread);

// --- Stacks of many threads, merged by their common frames, outermost first.

// A frame, and the ranks whose threads are in it or in its callees. Threads without a stack end in a node that says
// why.
struct StackNode {
    std::string text;
    std::set<int> ranks;
    size_t threads = 0;
    size_t ending = 0;                // threads whose innermost frame this is
    std::vector<StackNode> children;  // those of most threads first
};

void add_stack(StackNode& root, int rank, const std::vector<std::string>& outermost_first);

// The root has no text.
StackNode merge_stacks(const std::vector<ProcessStacks>& all, bool all_threads);

}  // namespace titan::analyzer
