// The places from which a process made its NCCL calls (TITANTRACE_STACKS=collective), as its ring holds them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/ring/call_sites_image.h"
#include "formats/ring/ring_image.h"
#include "named_stacks.h"

namespace titan::analyzer {

struct CallStack {
    std::vector<StackSite> native;   // innermost first
    std::vector<PythonSite> python;  // innermost first
    bool native_cut = false;
    bool python_cut = false;
};

// A frame of either kind, for readers that know one kind.
struct CallFrame {
    std::string name;
    std::string file;  // the module if no source is known
    int line = 0;
};

// Call sites of one ring; numbers are CollectiveEntry::stack. The image and the symbols must outlive it. Not
// thread-safe.
class CallSites {
  public:
    // Native frames have no names without symbols.
    CallSites(const format::RingImage& image, Symbols* symbols);

    bool recorded() const { return !image_.empty(); }
    // Explains why requested frames are missing; empty if none are.
    std::vector<std::string> problems() const;
    // Empty for 0 and for unknown numbers.
    const CallStack& stack(uint32_t number);
    // "train.py:212 in step": the innermost frame that is not a framework's, of Python where there is one. Empty where
    // there is none.
    const std::string& place(uint32_t number);
    // "trainer.cpp:239 in forward (rank_comm.cpp:220)": the first caller in another file of the program, and the place
    // itself; where there is no such caller, the place. In one column of a table, a wrapper alone tells nothing.
    const std::string& caller(uint32_t number);
    // The same with up to two callers in the program: "train.py:9 in call, from train.py:157 in step".
    const std::string& way(uint32_t number);
    // Native and Python frames merged, innermost first: the Python frames of one run of the interpreter replace it.
    std::vector<CallFrame> frames(uint32_t number);

  private:
    struct Known {
        CallStack stack;
        std::string place;
        std::string caller;
        std::string way;
    };
    const Known& known(uint32_t number);
    StackSite native_site(uint64_t address);

    format::CallSitesImage image_;
    Symbols* symbols_;
    std::vector<format::StackModule> modules_;
    std::unordered_map<uint32_t, Known> known_;
};

// --- The places in the program from which markers came, as a ring holds them, in words: "train.py:40 step".

// Numbers are MarkerEntry::site. Its bytes and the symbols must outlive it. Not thread-safe.
class MarkerPlaces {
  public:
    // Native places are shown as "program+0x1234" without symbols.
    MarkerPlaces(const format::RingImage& image, Symbols* symbols) : image_(image), symbols_(symbols) {}

    // Empty for 0, and where nobody has put the place into words before the process ended.
    const std::string& place(uint32_t site);

  private:
    std::string native_place(const std::string& stored);

    format::RingImage image_;
    Symbols* symbols_;
    std::unordered_map<uint32_t, std::string> known_;
};

}  // namespace titan::analyzer
