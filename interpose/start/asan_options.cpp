// AddressSanitizer's shared runtime refuses to start a program if any library is preloaded before it, because it wants
// its malloc to be the first. Functions that both define reach it through us, so it need not check.
#include "base/loaded_objects.h"
#include "base/text.h"

namespace {

constexpr const char* kOption = "verify_asan_link_order=0";

__attribute__((no_sanitize("address", "thread", "undefined"))) const char* with_options_behind_us() {
    auto* const behind = reinterpret_cast<const char* (*)()>(titan::function_behind_us("__asan_default_options"));
    const char* const theirs = behind != nullptr ? behind() : nullptr;
    if (theirs == nullptr || *theirs == '\0') {
        return kOption;
    }
    // Another library's options come first; where they do not fit, they are all that counts.
    static char both[4096];
    titan::TextWriter writer(both, sizeof(both));
    writer.format("%s:%s", theirs, kOption);
    return writer.cut() ? theirs : both;
}

}  // namespace

// The runtime calls this before anything else runs; options of the program or $ASAN_OPTIONS override it.
extern "C" __attribute__((visibility("default"))) const char*
__asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
    return with_options_behind_us();
}
