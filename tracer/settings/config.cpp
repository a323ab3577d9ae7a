#include "config.h"

#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/seconds.h"
#include "base/signals.h"
#include "base/text.h"
#include "log.h"

namespace titan::tracer {
namespace {

// Every setting that can be switched off takes the words of parse_switch for it, so does who only asks whether it is
// off.
constexpr std::string_view kOffName = "off";
constexpr uint64_t kMinSlots = 64;
constexpr uint64_t kMaxSlots = 1 << 22;
constexpr uint64_t kMaxKeep = 100'000;
constexpr uint64_t kMaxRank = INT32_MAX;

bool parse_bool(const char* text, bool& value) { return parse_switch(text, value); }

template <size_t Capacity>
bool parse_text(const char* text, char (&value)[Capacity]) {
    return copy_text(value, Capacity, text);
}

// Programs change their working directory: a relative path means the one of now.
bool parse_path(const char* text, char (&value)[PATH_MAX]) {
    if (text[0] == '\0') {
        return false;
    }
    if (text[0] == '/') {
        return copy_text(value, PATH_MAX, text);
    }
    char cwd[PATH_MAX];
    if (getcwd(cwd, sizeof(cwd)) == nullptr || cwd[0] != '/') {
        return copy_text(value, PATH_MAX, "/tmp/titantrace-dumps");
    }
    TextWriter writer(value, PATH_MAX);
    writer.format("%s/%s", same_text(cwd, "/") ? "" : cwd, text);
    return !writer.cut();
}

// Calls visit(first, last, every): "5" is (5, 5, 1), "0-7" is (0, 7, 1), "%8" is (0, max, 8).
template <typename Visit>
bool each_rank_range(const char* list, Visit visit) {
    const char* item = list;
    while (true) {
        size_t length = strcspn(item, ",");
        const char* dash = static_cast<const char*>(memchr(item, '-', length));
        uint64_t first = 0;
        uint64_t last = kMaxRank;
        uint64_t every = 1;
        bool good = false;
        if (length != 0 && item[0] == '%') {
            good = parse_u64(item + 1, length - 1, every) && every != 0;
        } else if (dash != nullptr) {
            auto head = static_cast<size_t>(dash - item);
            good = parse_u64(item, head, first) && parse_u64(dash + 1, length - head - 1, last);
        } else {
            good = parse_u64(item, length, first);
            last = first;
        }
        if (!good || first > last || last > kMaxRank) {
            return false;
        }
        visit(first, last, every);
        if (item[length] == '\0') {
            return true;
        }
        item += length + 1;
    }
}

bool parse_ranks(const char* text, RankList& value) {
    if (text[0] != '\0' && !each_rank_range(text, [](uint64_t, uint64_t, uint64_t) {})) {
        return false;
    }
    return copy_text(value, sizeof(value), text);
}

// Each item has a key and a value.
bool parse_labels(const char* text, LabelList& value) {
    for (const char* item = text; *item != '\0';) {
        const size_t length = strcspn(item, ",");
        const size_t key = strcspn(item, "=,");
        if (key == 0 || key >= length) {
            return false;
        }
        item += item[length] == '\0' ? length : length + 1;
    }
    return copy_text(value, sizeof(value), text);
}

// Signals that end or stop a process whatever it says, that report a fault, or that belong to glibc cannot be ours.
bool usable_signal(int number) {
    static constexpr int kTaken[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                     SIGABRT, SIGTRAP, SIGSYS,  SIGCHLD, 32,     33};
    for (int taken : kTaken) {
        if (number == taken) {
            return false;
        }
    }
    return number >= 1 && number <= SIGRTMAX;
}

bool parse_signal(const char* text, int& value) {
    const char* name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    uint64_t number = 0;
    if (!parse_u64(name, number)) {
        if (is_off(text)) {
            value = 0;
            return true;
        }
        if (strncasecmp(name, "RTMIN", 5) == 0 && (name[5] == '\0' || name[5] == '+')) {
            if (name[5] == '+' && (!parse_u64(name + 6, number) || number > 64)) {
                return false;
            }
            number += static_cast<uint64_t>(SIGRTMIN);
        } else {
            number = static_cast<uint64_t>(signal_named(name));
        }
    }
    if (number > 64 || !usable_signal(static_cast<int>(number))) {
        return false;
    }
    value = static_cast<int>(number);
    return true;
}

// Percent, with or without the sign: decimal numbers are read as seconds are.
bool parse_budget(const char* text, uint32_t& millionths) {
    constexpr uint64_t kPercent = 1'000'000'000;
    char number[32];
    uint64_t value = 0;
    if (!copy_text(number, sizeof(number), text)) {
        return false;
    }
    if (const size_t length = strlen(number); length != 0 && number[length - 1] == '%') {
        number[length - 1] = '\0';
    }
    if (!is_off(number) && (!parse_seconds(number, value) || value > 100 * kPercent)) {
        return false;
    }
    millionths = static_cast<uint32_t>(value / (kPercent / 10'000));
    return true;
}

// "METHOD" or "METHOD/N".
bool parse_gpu_progress(const char* text, GpuProgressSetting& value) {
    if (same_text(text, "auto")) {
        value = {format::GpuProgressMethod::kWrites, 1, true};
        return true;
    }
    const size_t length = strcspn(text, "/");
    uint64_t sample = 1;
    if (text[length] == '/' && (!parse_u64(text + length + 1, sample) || sample == 0 || sample > UINT32_MAX)) {
        return false;
    }
    const std::string_view name = is_off(text) ? kOffName : std::string_view(text, length);
    for (const auto& row : format::rows_of(format::GpuProgressMethod{})) {
        if (row.name == name) {
            value = {row.value, static_cast<uint32_t>(sample), false};
            return true;
        }
    }
    return false;
}

template <typename Mode>
struct NamedMode {
    const char* name;
    Mode mode;
};

template <typename Mode, size_t N>
bool parse_mode(const char* text, const NamedMode<Mode> (&modes)[N], Mode& value) {
    const std::string_view name = is_off(text) ? kOffName : std::string_view(text);
    for (const auto& known : modes) {
        if (name == known.name) {
            value = known.mode;
            return true;
        }
    }
    return false;
}

bool parse_cuda_mode(const char* text, CudaMode& value) {
    static constexpr NamedMode<CudaMode> kModes[] = {
        {"interpose", CudaMode::kInterpose}, {"cupti", CudaMode::kCupti}, {"off", CudaMode::kOff}};
    return parse_mode(text, kModes, value);
}

bool parse_stacks(const char* text, StackSetting& value) {
    static constexpr NamedMode<StackSetting> kModes[] = {
        {"off", {false, 0}},
        {"dump", {true, 0}},
        {"collective", {true, format::kNativeSites | format::kPythonSites}},
        {"collective:native", {true, format::kNativeSites}},
        {"collective:python", {true, format::kPythonSites}}};
    return parse_mode(text, kModes, value);
}

bool parse_nccl_plugin(const char* text, NcclPluginMode& value) {
    static constexpr NamedMode<NcclPluginMode> kModes[] = {
        {"auto", NcclPluginMode::kAuto}, {"progress", NcclPluginMode::kProgress}, {"off", NcclPluginMode::kOff}};
    return parse_mode(text, kModes, value);
}

bool parse_number(const char* text, uint32_t& value) {
    uint64_t number = 0;
    if (!is_off(text) && (!parse_u64(text, number) || number > UINT32_MAX)) {
        return false;
    }
    value = static_cast<uint32_t>(number);
    return true;
}

bool parse_dump_on(const char* text, uint32_t& value) {
    static constexpr format::DumpReason kChoices[] = {format::DumpReason::kSignal,     format::DumpReason::kTimeout,
                                                      format::DumpReason::kStandstill, format::DumpReason::kAbort,
                                                      format::DumpReason::kCrash,      format::DumpReason::kEnd,
                                                      format::DumpReason::kExit};
    value = 0;
    if (same_text(text, "none") || is_off(text)) {
        return true;
    }
    for (const char* item = text;;) {
        size_t length = strcspn(item, ",");
        uint32_t bit = 0;
        for (auto reason : kChoices) {
            std::string_view name = format::name_of(reason);
            if (name == std::string_view(item, length)) {
                bit = dump_bit(reason);
            }
        }
        if (bit == 0) {
            return false;
        }
        value |= bit;
        if (item[length] == '\0') {
            return true;
        }
        item += length + 1;
    }
}

bool parse_keep(const char* text, uint32_t& value) {
    uint64_t number = 0;
    if (!parse_u64(text, number) || number == 0 || number > kMaxKeep) {
        return false;
    }
    value = static_cast<uint32_t>(number);
    return true;
}

// No name service is asked: it would load libraries into the program.
bool parse_group(const char* text, uint32_t& value) {
    uint64_t number = kNoGroup;
    if (text[0] != '\0' && !parse_u64(text, number)) {
        FILE* const groups = fopen("/etc/group", "re");
        char line[4096];
        struct group known {};
        struct group* found = nullptr;
        while (groups != nullptr && fgetgrent_r(groups, &known, line, sizeof(line), &found) == 0 &&
               !same_text(known.gr_name, text)) {
            found = nullptr;
        }
        if (groups != nullptr) {
            fclose(groups);
        }
        if (found == nullptr) {
            return false;
        }
        number = known.gr_gid;
    }
    value = static_cast<uint32_t>(number);
    return number <= kNoGroup;
}

bool parse_slots(const char* text, uint32_t& value) {
    uint64_t number = 0;
    if (!parse_u64(text, number) || number == 0 || number > kMaxSlots) {
        return false;
    }
    uint64_t rounded = kMinSlots;
    while (rounded < number) {
        rounded *= 2;
    }
    value = static_cast<uint32_t>(rounded);
    return true;
}

void report_bad_value(const char* name, const char* text, const char* default_text) {
    char shown[160];
    TextWriter writer(shown, sizeof(shown));
    writer.escaped(text, 32);
    warn_once("%s=\"%s\" cannot be used, taking %s", name, shown,
              default_text[0] == '\0' ? "the default" : default_text);
}

struct Setting {
    const char* name;
    const char* default_text;
};
constexpr Setting kSettings[] = {
#define TITAN_CONFIG_ROW(variable, default_text, parser, field, help) {#variable, default_text},
#include "config.def"
#undef TITAN_CONFIG_ROW
};
static_assert(std::size(kSettings) <= 64);
constexpr const char kSettingPrefix[] = "TITANTRACE_";

bool is_setting(const char* variable, size_t length) {
    return std::any_of(std::begin(kSettings), std::end(kSettings), [&](const Setting& setting) {
        return strlen(setting.name) == length && memcmp(setting.name, variable, length) == 0;
    });
}

// With the setting that begins like it for longest, if that is more than the part that all have in common.
void report_unknown(const char* variable, size_t length) {
    constexpr size_t kTelling = sizeof(kSettingPrefix) - 1 + 3;
    const char* nearest = nullptr;
    size_t longest = kTelling - 1;
    for (const Setting& setting : kSettings) {
        size_t same = 0;
        while (same < length && setting.name[same] == variable[same]) {
            ++same;
        }
        if (same > longest) {
            longest = same;
            nearest = setting.name;
        }
    }
    char name[64];
    copy_text(name, std::min(sizeof(name), length + 1), variable);
    char shown[160];
    TextWriter writer(shown, sizeof(shown));
    writer.escaped(name);
    warn_once("%s is no setting of titantrace%s%s", shown, nearest == nullptr ? "" : "; did you mean ",
              nearest == nullptr ? "" : nearest);
}

}  // namespace

void load_config(Config& config) {
    bool setuid = getauxval(AT_SECURE) != 0;
    config.unusable = 0;
    uint64_t bit = 1;
#define TITAN_CONFIG_ROW(variable, default_text, parser, field, help)                 \
    {                                                                                 \
        const char* text = setuid ? nullptr : getenv(#variable);                      \
        bool given = text != nullptr && (text[0] != '\0' || default_text[0] == '\0'); \
        if (!given || !parse_##parser(text, config.field)) {                          \
            config.unusable |= given ? bit : 0;                                       \
            parse_##parser(default_text, config.field);                               \
        }                                                                             \
        bit <<= 1;                                                                    \
    }
#include "config.def"
#undef TITAN_CONFIG_ROW
    if (setuid) {
        config.enabled = false;
    }
}

void report_settings(const Config& config) {
    for (size_t row = 0; row < std::size(kSettings); ++row) {
        const char* const text = getenv(kSettings[row].name);
        if ((config.unusable >> row & 1) != 0 && text != nullptr) {
            report_bad_value(kSettings[row].name, text, kSettings[row].default_text);
        }
    }
    for (char* const* variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        const size_t length = strcspn(*variable, "=");
        if (starts_with(*variable, kSettingPrefix) && !is_setting(*variable, length)) {
            report_unknown(*variable, length);
        }
    }
}

// Items are names, or beginnings of names before a '*'; those behind a '-' are left out. Without others all are in.
bool is_listed(const char* list, const char* name, size_t length) {
    bool any_without_dash = false;
    bool is_found = false;
    for (const char* item = list; *item != '\0';) {
        const size_t whole = strcspn(item, ",");
        const bool leaves_out = *item == '-';
        const char* const words = item + (leaves_out ? 1 : 0);
        size_t words_length = whole - (leaves_out ? 1 : 0);
        const bool is_beginning = words_length != 0 && words[words_length - 1] == '*';
        words_length -= is_beginning ? 1 : 0;
        const bool fits =
            (is_beginning ? length >= words_length : length == words_length) && memcmp(words, name, words_length) == 0;
        if (fits && leaves_out) {
            return false;
        }
        any_without_dash = any_without_dash || !leaves_out;
        is_found = is_found || fits;
        item += item[whole] == '\0' ? whole : whole + 1;
    }
    return !any_without_dash || is_found;
}

bool rank_selected(const Config& config, int rank) {
    if (rank < 0 || config.ranks[0] == '\0') {
        return true;
    }
    bool selected = false;
    auto number = static_cast<uint64_t>(rank);
    each_rank_range(config.ranks, [&](uint64_t first, uint64_t last, uint64_t every) {
        selected = selected || (number >= first && number <= last && number % every == 0);
    });
    return selected;
}

}  // namespace titan::tracer
