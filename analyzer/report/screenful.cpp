#include "document.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "host/words.h"

namespace titan::analyzer {
namespace {

// What a smaller view leaves out of a document. Each step takes more than the one before; the paragraphs of the verdict
// stay.
struct Cut {
    size_t items = kAll;
    size_t groups = kAll;
    size_t frames = kAll;
    size_t commands = kAll;
    std::set<std::string> sections{};  // ids of those that are left out
    bool brief_others = false;         // other findings: their first paragraph alone
};

const std::set<std::string> kBehind = {"stack", "place"};
const std::set<std::string> kBeside = {"stack", "place", "would_confirm", "warnings", "cycle"};
const std::set<std::string> kAround = {"stack", "place", "would_confirm", "warnings", "cycle", "rank_states"};
const std::set<std::string> kAllButTheVerdict = {"stack",       "place",   "would_confirm", "warnings",  "cycle",
                                                 "rank_states", "finding", "evidence",      "next_steps"};

const Cut kCuts[] = {
    {.frames = 8},
    {.items = 5, .groups = 6, .frames = 6, .brief_others = true},
    {.items = 4, .groups = 4, .sections = kBehind, .brief_others = true},
    {.items = 3, .groups = 4, .commands = 4, .sections = kBeside, .brief_others = true},
    {.items = 2, .groups = 3, .commands = 3, .sections = kBeside, .brief_others = true},
    {.items = 2, .groups = 2, .commands = 2, .sections = kBeside, .brief_others = true},
    {.items = 1, .groups = 2, .commands = 2, .sections = kBeside, .brief_others = true},
    {.items = 2, .groups = 1, .commands = 2, .sections = kAround, .brief_others = true},
    {.items = 1, .groups = 1, .commands = 2, .sections = kAround, .brief_others = true},
    {.items = 1, .groups = 1, .commands = 1, .sections = kAllButTheVerdict, .brief_others = true},
};

class Cutter {
  public:
    explicit Cutter(const Cut& cut) : cut_(cut) {}

    void sections(std::vector<Section>& all) {
        std::erase_if(all, [&](const Section& section) { return leaves_out(section); });
        for (Section& section : all) {
            if (section.id == "finding" && cut_.brief_others && section.blocks.size() > 1) {
                section.blocks.resize(1);
            }
            for (Block& block : section.blocks) {
                std::visit([&](auto& shown) { shorten(shown); }, block);
            }
            sections(section.sections);
        }
    }

  private:
    bool leaves_out(const Section& section) const { return cut_.sections.contains(section.id); }

    void shorten(Paragraph& /*paragraph*/) {}
    void shorten(Items& items) {
        items.shown = std::min(items.shown, cut_.items);
        items.others = "more";
    }
    void shorten(Table& table) { table.shown = std::min(table.shown, cut_.items); }
    void shorten(Chain& chain) { chain.shown = std::min(chain.shown, std::max<size_t>(cut_.items, 2)); }
    void shorten(RankGroups& groups) { groups.shown = std::min(groups.shown, cut_.groups); }
    void shorten(Frames& frames) {
        if (frames.frames.size() > cut_.frames) {
            frames.frames.resize(cut_.frames);
        }
    }
    // The first line says what to do; of the others commands are worth more than remarks.
    void shorten(Commands& commands) {
        std::vector<std::string>& lines = commands.lines;
        while (lines.size() > cut_.commands) {
            const auto remark = std::find_if(lines.rbegin(), lines.rend() - 1,
                                             [](const std::string& line) { return line.starts_with("# "); });
            lines.erase(remark == lines.rend() - 1 ? lines.end() - 1 : std::next(remark).base());
        }
    }

    const Cut& cut_;
};

// As many as the terminal makes of it: it wraps what we do not.
size_t screen_lines(const std::string& text, size_t width) {
    size_t lines = 0;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        lines +=
            std::max<size_t>(1, (characters(std::string_view(text).substr(begin, end - begin)) + width - 1) / width);
        begin = end + 1;
    }
    return lines;
}

void add_more(Document& document, const std::string& more) {
    const auto last =
        std::ranges::find_if(document.sections, [](const Section& section) { return section.id == "next_steps"; });
    const std::string line = more + "  # the whole report";
    if (last != document.sections.end()) {
        std::get<Commands>(last->blocks.front()).lines.push_back(line);
    } else {
        document.sections.push_back({.id = "more", .title = "More", .blocks = {Commands{{line}}}});
    }
}

// For what is too long all the same, as a name of 10 kB.
std::string first_lines(const std::string& text, const TextStyle& style, const std::string& more) {
    std::string kept;
    size_t used = 0;
    const std::string rest = fmt::format("...\n  {}\n", more);
    const size_t room = style.rows - std::min(style.rows, screen_lines(rest, style.width) + 1);
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin) + "\n";
        used += screen_lines(line, style.width);
        if (used > room) {
            return kept + rest;
        }
        kept += line;
        begin = end + 1;
    }
    return kept;
}

}  // namespace

std::string screenful(Document document, const TextStyle& style, const std::string& more) {
    TextStyle plain = style;
    plain.colour = false;
    const auto fits = [&](const Document& shown) {
        return screen_lines(document_text(shown, plain), style.width) + 1 <= style.rows;  // and the next prompt
    };
    if (fits(document)) {
        return document_text(document, style);
    }
    for (const Cut& cut : kCuts) {
        Document shown = document;
        Cutter(cut).sections(shown.sections);
        add_more(shown, more);
        if (fits(shown)) {
            return document_text(shown, style);
        }
        if (&cut == std::end(kCuts) - 1) {
            document = std::move(shown);
        }
    }
    return first_lines(document_text(document, plain), style, more);
}

}  // namespace titan::analyzer
