// A report as values: its sections and all their content. The renderer decides how it looks, and how much of it a
// screen takes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "host/json_value.h"
#include "host/listing.h"
#include "run.h"
#include "sentence.h"

namespace titan::analyzer {

constexpr size_t kAll = SIZE_MAX;

struct Paragraph {
    Sentence text;
};

// Lists say how many of them a screen shows (`shown`), and what it calls the others behind their number.
struct Items {
    std::vector<Sentence> items{};
    size_t shown = kAll;
    std::string others = "more (--json)";
};

struct Table {
    std::vector<ListColumn> columns;  // no titles: the rows alone
    std::vector<std::vector<std::string>> rows{};
    size_t shown = kAll;
    std::string others = "more (--json)";
};

// Steps that lead to one another, the last one back to the first. A screen shows the two ends of a long one.
struct Chain {
    std::vector<Sentence> steps{};
    Sentence back{};
    size_t shown = kAll;
};

// Ranks that do the same.
struct RankGroup {
    Sentence ranks;
    std::string state;
    bool named = false;  // the finding names it
};
struct RankGroups {
    std::vector<RankGroup> groups{};
    size_t shown = kAll;
};

// Frames of a stack, innermost first, a line each.
struct Frames {
    std::vector<std::string> frames{};
};

// Lines for a shell: commands, and comments that begin with "# ". Each can be pasted as it stands.
struct Commands {
    std::vector<std::string> lines{};
};

using Block = std::variant<Paragraph, Items, Table, Chain, RankGroups, Frames, Commands>;

enum class Tone : uint8_t { kPlain, kGood, kCaution, kAlarm };

struct Section {
    std::string id;  // "verdict", "evidence": for programs; empty: part of the section around it
    std::string title{};
    Tone tone = Tone::kPlain;
    Sentence lead{};  // text after the title
    std::vector<Block> blocks{};
    std::vector<Section> sections{};
    std::string folded_as{};  // name by which a screen that does not show it counts it ("finding")
};

struct Document {
    Sentence about;
    std::vector<Section> sections{};
};

struct TextStyle {
    bool colour = false;
    size_t width = 100;          // columns
    size_t rows = 0;             // of the screen that a report has to fit; 0: it is no screen
    std::string input = "PATH";  // the records, as named on a command line and quoted for the shell
    ListingOptions tables{};     // CSV: the tables alone, and all their rows
};

std::string document_text(const Document& document, const TextStyle& style);

// As much of a document as a screen takes: the verdict first, then what tells most, then how to see the rest.
// style.rows lines at most, as a terminal of style.width columns counts them; all of the document where that fits.
// `more`: the command that shows all.
std::string screenful(Document document, const TextStyle& style, const std::string& more);

// --- A document as JSON.

// A sentence is a list of its parts in their order: words as texts, facts as objects with their words as "text".
Json sentence_json(const Run& run, const Sentence& sentence);

Json communicator_json(const Run& run, uint32_t index);

// {"about": sentence, "sections": [{"id", "title", "tone", "lead", "blocks", "sections"}]}; empty parts are left out.
Json document_json(const Run& run, const Document& document);

// --- The version of titan-analyze's JSON.

// Version of every JSON answer. Raised when a key changes its name or meaning; CHANGELOG.md lists them.
inline constexpr int kJsonSchema = 4;

}  // namespace titan::analyzer
