#include "fold_frames.h"

#include <fmt/format.h>

#include <algorithm>

namespace titan::analyzer {
namespace {

constexpr size_t kShownLibraries = 4;
constexpr size_t kOutermostLines = 4;  // kept of a stack that is cut in the middle

using Frame = std::vector<StackFrame>::const_iterator;

std::string run_text(Frame first, Frame end) {
    if (end - first == 1) {
        return first->text;
    }
    std::vector<std::string> libraries;
    for (auto frame = first; frame != end; ++frame) {
        if (std::find(libraries.begin(), libraries.end(), frame->library) == libraries.end()) {
            libraries.push_back(frame->library);
        }
    }
    std::string list;
    for (size_t i = 0; i < std::min(libraries.size(), kShownLibraries); ++i) {
        list += (i == 0 ? "" : ", ") + libraries[i];
    }
    return fmt::format("... {} frames in {}{}", end - first, list,
                       libraries.size() > kShownLibraries ? " and more" : "");
}

}  // namespace

std::vector<std::string> folded_frames(const std::vector<StackFrame>& frames, size_t most) {
    std::vector<std::string> lines;
    for (auto next = frames.begin(); next != frames.end();) {
        const auto end =
            std::find_if(next, frames.end(), [](const StackFrame& frame) { return frame.library.empty(); });
        if (end == next) {
            lines.push_back((next++)->text);
            continue;
        }
        const auto folded_end = end == frames.end() ? end : std::prev(end);
        if (folded_end != next) {
            lines.push_back(run_text(next, folded_end));
        }
        if (folded_end != end) {
            lines.push_back(folded_end->text);
        }
        next = end;
    }
    if (lines.size() > most) {
        const auto outermost = lines.end() - static_cast<std::ptrdiff_t>(kOutermostLines);
        const auto cut = lines.begin() + static_cast<std::ptrdiff_t>(most - kOutermostLines - 1);
        *cut = fmt::format("... {} more", outermost - cut);
        lines.erase(cut + 1, outermost);
    }
    return lines;
}

}  // namespace titan::analyzer
