// A document on a terminal: wrapped, coloured, and no longer than a person reads.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "document.h"
#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr size_t kIndent = 2;  // of a table

// SGR parameters of ECMA-48; index: Tone.
constexpr std::array<const char*, 4> kPaint{"1", "1;32", "1;33", "1;31"};

class TextWriter {
  public:
    explicit TextWriter(const TextStyle& style) : style_(style) {}

    std::string write(const Document& document) {
        if (!document.about.empty()) {
            out_ += wrapped(document.about.text(), style_.width, "", "  ");
        }
        sections(document.sections, 0);
        return std::move(out_);
    }

  private:
    std::string paint(Tone tone, const std::string& text) const {
        return style_.colour ? fmt::format("\033[{}m{}\033[0m", kPaint[static_cast<size_t>(tone)], text) : text;
    }

    void item(const std::string& text, const std::string& bullet) {
        out_ += wrapped(text, style_.width, bullet, std::string(characters(bullet), ' '));
    }

    void count_others(size_t all, size_t shown, const std::string& others, const std::string& bullet) {
        if (all > shown) {
            item(fmt::format("and {} {}", all - shown, others), bullet);
        }
    }

    void title(const Section& section, size_t depth) {
        if (section.title.empty()) {
            return;
        }
        const std::string label = std::string(2 * depth, ' ') + section.title;
        const std::string text =
            section.lead.empty() ? label + "\n" : wrapped(label + "  " + section.lead.text(), style_.width, "", "  ");
        out_ += (out_.empty() ? "" : "\n") + paint(section.tone, label) + text.substr(label.size());
    }

    void sections(const std::vector<Section>& all, size_t depth) {
        size_t folded = 0;
        for (const Section& section : all) {
            folded += section.folded_as.empty() ? 0 : 1;
            if (!section.folded_as.empty()) {
                continue;
            }
            write_folded(all, folded, depth);
            folded = 0;
            title(section, depth);
            for (const Block& block : section.blocks) {
                std::visit([&](const auto& shown) { write_block(shown, depth); }, block);
            }
            sections(section.sections, depth + 1);
        }
        write_folded(all, folded, depth);
    }

    void write_folded(const std::vector<Section>& all, size_t folded, size_t depth) {
        if (folded != 0) {
            const auto one = std::ranges::find_if(all, [](const Section& s) { return !s.folded_as.empty(); });
            out_ +=
                fmt::format("\n{:{}}and {} more {} (--json)\n", "", 2 * depth, folded, plural(folded, one->folded_as));
        }
    }

    static std::string bullet(size_t depth) { return depth == 0 ? "  - " : "   - "; }

    void write_block(const Paragraph& paragraph, size_t /*depth*/) {
        out_ += wrapped(paragraph.text.text(), style_.width, "  ", "  ");
    }

    void write_block(const Items& items, size_t depth) {
        for (size_t i = 0; i < std::min(items.shown, items.items.size()); ++i) {
            item(items.items[i].text(), bullet(depth));
        }
        count_others(items.items.size(), items.shown, items.others, bullet(depth));
    }

    void write_block(const Table& table, size_t /*depth*/) {
        const Listing::Write append = [this](const std::string& line) { out_ += std::string(kIndent, ' ') + line; };
        ListingOptions fitted;
        fitted.width = style_.tables.width > kIndent ? style_.tables.width - kIndent : 0;
        Listing listing(table.columns, 0, append, fitted);
        Rows rows = table.rows;
        sort_rows(table.columns, style_.tables, rows);
        for (size_t i = 0; i < std::min(table.shown, rows.size()); ++i) {
            listing.add(std::move(rows[i]));
        }
        listing.finish();
        count_others(table.rows.size(), table.shown, table.others, "  ");
    }

    void write_block(const Chain& chain, size_t /*depth*/) {
        const size_t count = chain.steps.size();
        for (size_t i = 0; i < count; ++i) {
            if (count > chain.shown && i == chain.shown - 2) {
                out_ += fmt::format("     -> ... {} more ...\n", count - chain.shown);
                i = count - 2;
            }
            item(chain.steps[i].text(), i == 0 ? "   " : "     -> ");
        }
        item(chain.back.text(), "     -> ");
    }

    void write_block(const RankGroups& groups, size_t /*depth*/) {
        for (size_t i = 0; i < std::min(groups.shown, groups.groups.size()); ++i) {
            const RankGroup& group = groups.groups[i];
            const std::string line = wrapped(group.ranks.text() + ": " + group.state, style_.width,
                                             group.named ? "  => " : "     ", "       ");
            out_ += group.named ? paint(Tone::kPlain, line.substr(0, line.size() - 1)) + "\n" : line;
        }
        count_others(groups.groups.size(), groups.shown, "more groups of ranks (--json)", "     ");
    }

    void write_block(const Frames& frames, size_t /*depth*/) {
        for (const std::string& frame : frames.frames) {
            item(frame, "     ");
        }
    }

    // A command is never wrapped: its first line alone would be another one.
    void write_block(const Commands& commands, size_t /*depth*/) {
        for (const std::string& line : commands.lines) {
            out_ += line.starts_with("# ") ? wrapped(line, style_.width, "  ", "  # ") : "  " + line + "\n";
        }
    }

    const TextStyle& style_;
    std::string out_;
};

// Tables with column titles.
std::vector<const Table*> tables_of(const std::vector<Section>& sections) {
    std::vector<const Table*> tables;
    for (const Section& section : sections) {
        for (const Block& block : section.blocks) {
            const Table* const table = std::get_if<Table>(&block);
            if (table != nullptr &&
                std::ranges::any_of(table->columns, [](const ListColumn& column) { return !column.title.empty(); })) {
                tables.push_back(table);
            }
        }
        const std::vector<const Table*> below = tables_of(section.sections);
        tables.insert(tables.end(), below.begin(), below.end());
    }
    return tables;
}

}  // namespace

std::string document_text(const Document& document, const TextStyle& style) {
    const std::vector<const Table*> tables = tables_of(document.sections);
    std::vector<std::vector<ListColumn>> columns;
    std::string csv;
    for (const Table* table : tables) {
        columns.push_back(table->columns);
    }
    check_sort(columns, style.tables);
    if (style.tables.csv) {
        for (const Table* table : tables) {
            csv += (csv.empty() ? "" : "\n") + listing_text(table->columns, table->rows, style.tables);
        }
        return csv;
    }
    return TextWriter(style).write(document);
}

// --- as JSON

namespace {

constexpr std::array<const char*, 4> kTones{"plain", "good", "caution", "alarm"};

struct FactWriter {
    const Run& run;
    Json& json;

    void operator()(const RanksFact& fact) const { json["ranks"] = fact.ranks; }
    void operator()(const CommunicatorFact& fact) const {
        json["communicator"] = communicator_json(run, fact.communicator);
    }
    void operator()(const CallFact& fact) const {
        json["communicator"] = communicator_json(run, fact.communicator);
        json["op"] = fact.op;
        json["seq"] = fact.sequence == kNoSequence ? Json(nullptr) : Json(fact.sequence);
    }
    void operator()(const DurationFact& fact) const { json["duration_ns"] = fact.duration_ns; }
};

class BlockWriter {
  public:
    explicit BlockWriter(const Run& run) : run_(run) {}

    Json operator()(const Paragraph& paragraph) const {
        return {{"type", "paragraph"}, {"text", sentence_json(run_, paragraph.text)}};
    }
    Json operator()(const Items& items) const { return {{"type", "items"}, {"items", sentences(items.items)}}; }
    Json operator()(const Table& table) const {
        return {{"type", "table"}, {"columns", mapped(table.columns, &ListColumn::title)}, {"rows", table.rows}};
    }
    Json operator()(const Chain& chain) const {
        return {{"type", "chain"}, {"steps", sentences(chain.steps)}, {"back", sentence_json(run_, chain.back)}};
    }
    Json operator()(const RankGroups& groups) const {
        Json list = mapped(groups.groups, [&](const RankGroup& group) -> Json {
            return {{"ranks", sentence_json(run_, group.ranks)}, {"state", group.state}, {"named", group.named}};
        });
        return {{"type", "rank_groups"}, {"groups", list}};
    }
    Json operator()(const Frames& frames) const { return {{"type", "frames"}, {"frames", frames.frames}}; }
    Json operator()(const Commands& commands) const { return {{"type", "commands"}, {"lines", commands.lines}}; }

  private:
    Json sentences(const std::vector<Sentence>& all) const {
        return mapped(all, [&](const Sentence& sentence) { return sentence_json(run_, sentence); });
    }

    const Run& run_;
};

Json sections_json(const Run& run, const std::vector<Section>& sections) {
    Json list = Json::array();
    for (const Section& section : sections) {
        Json json{{"id", section.id},
                  {"title", section.title},
                  {"tone", kTones[static_cast<size_t>(section.tone)]},
                  {"blocks", Json::array()}};
        if (!section.lead.empty()) {
            json["lead"] = sentence_json(run, section.lead);
        }
        for (const Block& block : section.blocks) {
            json["blocks"].push_back(std::visit(BlockWriter(run), block));
        }
        if (!section.sections.empty()) {
            json["sections"] = sections_json(run, section.sections);
        }
        list.push_back(std::move(json));
    }
    return list;
}

}  // namespace

Json communicator_json(const Run& run, uint32_t index) {
    if (index == kNoIndex) {
        return nullptr;
    }
    const Communicator& communicator = run.communicators[index];
    return {{"id", id_text(communicator.id)}, {"name", communicator.name}, {"size", communicator.size}};
}

Json sentence_json(const Run& run, const Sentence& sentence) {
    Json parts = Json::array();
    for (const Sentence::Part& part : sentence.parts()) {
        if (!part.fact) {
            parts.push_back(part.words);
            continue;
        }
        Json json = Json::object();
        json["text"] = part.words;
        std::visit(FactWriter{run, json}, *part.fact);
        parts.push_back(std::move(json));
    }
    return parts;
}

Json document_json(const Run& run, const Document& document) {
    return {{"about", sentence_json(run, document.about)}, {"sections", sections_json(run, document.sections)}};
}

}  // namespace titan::analyzer
