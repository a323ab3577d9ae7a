#include "marker_places.h"

#include <fmt/format.h>

#include <charconv>

#include "function_name.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

uint8_t digit_of(char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

// As many whole bytes as there are.
uint32_t parse_build_id(const std::string& text, unsigned char* bytes) {
    uint32_t count = 0;
    for (size_t at = 0; at + 1 < text.size() && count < format::kMaxBuildIdBytes; at += 2) {
        bytes[count++] = static_cast<unsigned char>(digit_of(text[at]) << 4 | digit_of(text[at + 1]));
    }
    return count;
}

}  // namespace

// "0xOFFSET BUILDID MODULE", as the tracer writes it (name_marker_sites); "-" without a build id.
std::string MarkerPlaces::native_place(const std::string& stored) {
    const size_t first = stored.find(' ');
    const size_t second = first == std::string::npos ? first : stored.find(' ', first + 1);
    StackSite site;
    const bool is_hex =
        stored.starts_with("0x") &&
        std::from_chars(stored.data() + 2, stored.data() + stored.size(), site.in_module, 16).ec == std::errc();
    if (!is_hex || second == std::string::npos) {
        return {};
    }
    const std::string build_id = stored.substr(first + 1, second - first - 1);
    const std::string path = stored.substr(second + 1);
    const bool is_known = build_id.find_first_not_of("0123456789abcdef") == std::string::npos;
    site.module = base_name(printable(path));
    if (site.module.starts_with("libffi")) {
        return {};  // a call from another language: its own place was not told
    }
    if (symbols_ != nullptr && is_known) {
        format::StackModule module{};
        module.build_id_bytes = parse_build_id(build_id, module.build_id);
        symbols_->name(module, path, site, true);
    }
    if (!site.file.empty()) {
        return fmt::format("{}:{} {}", base_name(site.file), site.line, short_frame(site.function));
    }
    return site.function.empty() ? fmt::format("{}+0x{:x}", site.module, site.in_module)
                                 : fmt::format("{} {}", site.module, short_frame(site.function));
}

const std::string& MarkerPlaces::place(uint32_t number) {
    const auto [known, inserted] = known_.try_emplace(number);
    if (inserted) {
        const format::MarkerSiteRecord site = image_.marker_site(number);
        const std::string stored(image_.text(site.place));
        known->second = (site.key & format::kToldSite) != 0 ? printable(stored) : native_place(stored);
    }
    return known->second;
}

}  // namespace titan::analyzer
