#include "unwinder.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <libunwind-x86_64.h>
#elif defined(__aarch64__)
#include <libunwind-aarch64.h>
#endif

#include "base/own_memory.h"
#include "call_frame_info.h"
#include "formats/layout/stacks_layout.h"
#include "lost_frame.h"

namespace titan::tracer {
namespace {

#if defined(__x86_64__)
constexpr const char* kLibrary = "libunwind-x86_64.so.8";
#elif defined(__aarch64__)
constexpr const char* kLibrary = "libunwind-aarch64.so.8";
#endif

// X(name): the functions that we use of the library, by the names that its header gives for this machine.
#define TITAN_UNWIND_FUNCTIONS(X) \
    X(create_addr_space)          \
    X(set_caching_policy)         \
    X(flush_cache)                \
    X(init_remote)                \
    X(step)                       \
    X(get_reg)                    \
    X(dwarf_search_unwind_table)

#define TITAN_TEXT_OF(name) #name
#define TITAN_EXPANDED_TEXT_OF(name) TITAN_TEXT_OF(name)

}  // namespace

// Exported for readers of unwind tables such as ours (perf is another), without a declaration in the headers.
extern "C" int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t*, unw_proc_info_t*, int,
                                                  void*);

namespace {

struct Library {
#define X(name) decltype(&UNW_OBJ(name)) name;
    TITAN_UNWIND_FUNCTIONS(X)
#undef X
    unw_addr_space_t space;
};
constinit Library library{};

// The address that handlers return to: the frame behind it was interrupted, it did not call. 0 unknown: then only names
// are less exact.
constinit uint64_t signal_return = 0;

// Data that libunwind's accessors read.
struct Context {
    const CapturedThread& thread;
    bool steady;
    const ModuleList& modules;
    uint64_t registers[kRegisters];
    uint64_t known_registers;
};

int access_memory(unw_addr_space_t, unw_word_t address, unw_word_t* value, int write, void* argument) {
    const CapturedThread& thread = static_cast<const Context*>(argument)->thread;
    if (write != 0) {
        return -UNW_EINVAL;
    }
    const uint64_t within = address - thread.stack_begin;
    if (address >= thread.stack_begin && thread.stack_bytes >= sizeof(*value) &&
        within <= thread.stack_bytes - sizeof(*value)) {
        memcpy(value, thread.stack + within, sizeof(*value));
        return 0;
    }
    // Unwind tables. Not the stack beyond the copy, unless it waits: it has moved on.
    const Context& context = *static_cast<const Context*>(argument);
    const bool stands = context.steady || context.modules.find(address) != nullptr;
    return stands && read_memory(address, *value) ? 0 : -UNW_EINVAL;
}

int access_register(unw_addr_space_t, unw_regnum_t number, unw_word_t* value, int write, void* argument) {
    const Context& context = *static_cast<const Context*>(argument);
    if (write != 0 || number < 0 || static_cast<size_t>(number) >= kRegisters ||
        (context.known_registers >> number & 1) == 0) {
        return -UNW_EBADREG;
    }
    *value = context.registers[number];
    return 0;
}

int no_float(unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) { return -UNW_EBADREG; }
int no_resume(unw_addr_space_t, unw_cursor_t*, void*) { return -UNW_EINVAL; }
int no_name(unw_addr_space_t, unw_word_t, char*, size_t, unw_word_t*, void*) { return -UNW_ENOINFO; }
int no_dynamic_code(unw_addr_space_t, unw_word_t*, void*) { return -UNW_ENOINFO; }
void put_nothing(unw_addr_space_t, unw_proc_info_t*, void*) {}

int find_unwind_table(unw_addr_space_t space, unw_word_t address, unw_proc_info_t* info, int need, void* argument) {
    const Module* const module = static_cast<const Context*>(argument)->modules.find(address);
    UnwindIndex index;
    if (module == nullptr || !open_unwind_index(*module, index)) {
        return -UNW_ENOINFO;
    }
    unw_dyn_info_t table{};
    table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
    table.start_ip = module->begin;
    table.end_ip = module->end;
    table.u.rti.segbase = index.base;
    table.u.rti.table_data = index.rows;
    table.u.rti.table_len = index.count * sizeof(UnwindRow) / sizeof(unw_word_t);
    return library.dwarf_search_unwind_table(space, address, &table, info, need, argument);
}

unw_accessors_t accessors() {
    unw_accessors_t made{};
    made.find_proc_info = find_unwind_table;
    made.put_unwind_info = put_nothing;
    made.get_dyn_info_list_addr = no_dynamic_code;
    made.access_mem = access_memory;
    made.access_reg = access_register;
    made.access_fpreg = no_float;
    made.resume = no_resume;
    made.get_proc_name = no_name;
    return made;
}

// Walks without libunwind: by the rules that call sites use (recording/unwind_rules.h), and by frame pointers where
// code has no tables. Frames that a signal interrupted have no such rule: the walk ends there.
Unwound follow_rules(const CapturedThread& thread, const ModuleList& modules, uint64_t* addresses, uint64_t* tops,
                     size_t capacity) {
    CallerFrame here{thread.registers[kInstruction], thread.registers[kStackPointer], thread.registers[kFramePointer]};
    bool known = (thread.known_registers >> kFramePointer & 1) != 0;
    size_t count = 0;
    size_t certain = 0;
    bool guessed = false;
    while (count < capacity && here.return_address != 0) {
        const uint64_t exact = count == 0 ? 1 : 0;  // no call: the instruction itself
        tops[count] = here.stack_pointer;
        addresses[count++] = here.return_address;
        certain = guessed ? certain : count;
        const Module* const module = modules.find(here.return_address);
        UnwindRule rule = module == nullptr ? kUsualRule : read_unwind_rule(*module, here.return_address + exact);
        rule = rule.kind == UnwindRule::kStop && known ? kUsualRule : rule;
        if (rule.kind == UnwindRule::kEnd) {
            return {count, true};
        }
        CallerFrame caller{};
        bool found = false;
        if (needs_frame_pointer(rule) && !known) {
            const Found how = find_lost_frame(thread, modules, here.return_address, here.stack_pointer, caller);
            found = known = how != Found::kNone;
            guessed = how == Found::kLikely;
        } else if (needs_frame_pointer(rule) || rule.kind == UnwindRule::kFromStackPointer) {
            found = step_by_rule(thread, rule, here, caller);
            known = known || rule.saved_frame_pointer_words != 0;
        }
        if (!found || caller.stack_pointer <= here.stack_pointer) {
            return {certain, false};
        }
        here = caller;
    }
    return here.return_address == 0 ? Unwound{count, true} : Unwound{certain, false};
}

}  // namespace

bool prepare_unwinder() {
    if (library.space != nullptr) {
        return true;
    }
    void* const handle = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
        return false;
    }
    Library found{};
#define X(name)                                                                                                \
    found.name = reinterpret_cast<decltype(found.name)>(dlsym(handle, TITAN_EXPANDED_TEXT_OF(UNW_OBJ(name)))); \
    if (found.name == nullptr) {                                                                               \
        return false;                                                                                          \
    }
    TITAN_UNWIND_FUNCTIONS(X)
#undef X
    unw_accessors_t ours = accessors();
    found.space = found.create_addr_space(&ours, 0);
    if (found.space == nullptr) {
        return false;
    }
    found.set_caching_policy(found.space, UNW_CACHE_GLOBAL);
    library = found;
    return true;
}

bool has_unwinder() { return library.space != nullptr; }

void new_unwind_round(int signal) {
    if (has_unwinder()) {
        library.flush_cache(library.space, 0, 0);
    }
#if defined(__x86_64__)
    struct {  // the kernel's own, as libc fills it in
        uint64_t handler, flags, restorer, mask;
    } action{};
    if (signal != 0 && syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof(action.mask)) == 0) {
        signal_return = action.restorer;
    }
#endif
}

namespace {

// A cursor that goes on where a frame is lost.
class Walk {
  public:
    explicit Walk(Context& context) : context_(context) {}

    bool begin() { return library.init_remote(&cursor_, library.space, &context_) == 0; }
    // The address at which the current frame goes on; false at the end.
    bool get(unw_word_t& address, uint64_t& top) {
        unw_word_t stack_pointer = 0;
        top = library.get_reg(&cursor_, UNW_REG_SP, &stack_pointer) == 0 ? stack_pointer : 0;
        if (library.get_reg(&cursor_, UNW_REG_IP, &address) != 0) {
            return false;
        }
        address += resumed_ ? 1 : 0;
        return true;
    }
    // As unw_step: positive if there is another frame, negative if it is not found.
    int step(unw_word_t address, uint64_t top) {
        const int more = library.step(&cursor_);
        resumed_ = false;
        if (more >= 0 || (context_.known_registers >> kFramePointer & 1) != 0) {
            return more;
        }
        CallerFrame caller{};
        const Found found = find_lost_frame(context_.thread, context_.modules, address, top, caller);
        if (found == Found::kNone) {
            return more;
        }
        resumed_ = true;
        guessed_ = found == Found::kLikely;
        context_.registers[kInstruction] = caller.return_address - 1;  // a call may be the last of its function
        context_.registers[kStackPointer] = caller.stack_pointer;
        context_.registers[kFramePointer] = caller.frame_pointer;
        context_.known_registers |= uint64_t{1} << kFramePointer;
        return begin() ? 1 : -UNW_EBADFRAME;
    }

    // The frames from here on are right only if they lead to the stack's end.
    bool guessed() const { return guessed_; }

  private:
    Context& context_;
    unw_cursor_t cursor_{};
    bool resumed_ = false;
    bool guessed_ = false;
};

}  // namespace

Unwound unwind(const CapturedThread& thread, bool steady, const ModuleList& modules, uint64_t* addresses,
               uint64_t* tops, size_t capacity) {
    if (capacity == 0) {
        return {0, false};
    }
    Context context{thread, steady, modules, {}, thread.known_registers};
    memcpy(context.registers, thread.registers, sizeof(context.registers));
    Walk walk(context);
    if (!has_unwinder() || !walk.begin()) {
        return follow_rules(thread, modules, addresses, tops, capacity);
    }
    size_t count = 0;
    size_t certain = 0;
    int more = 1;
    while (more > 0 && count < capacity) {
        unw_word_t address = 0;
        if (!walk.get(address, tops[count]) || address == 0) {
            more = address == 0 ? 0 : -UNW_EBADFRAME;
            break;
        }
        const uint64_t top = tops[count];
        const bool interrupted = count != 0 && signal_return != 0 && addresses[count - 1] == signal_return;
        addresses[count++] = interrupted ? address | format::kInterrupted : address;
        more = walk.step(address, top);
        certain = walk.guessed() ? certain : count;
    }
    return {more == 0 ? count : certain, more == 0};
}

}  // namespace titan::tracer
