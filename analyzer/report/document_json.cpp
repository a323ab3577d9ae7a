#include "document_json.h"

#include <array>

#include "host/words.h"

namespace titan::analyzer {
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
        Json columns = Json::array();
        for (const ListColumn& column : table.columns) {
            columns.push_back(column.title);
        }
        Json rows = Json::array();
        for (const auto& row : table.rows) {
            rows.push_back(row);
        }
        return {{"type", "table"}, {"columns", columns}, {"rows", rows}};
    }
    Json operator()(const Chain& chain) const {
        return {{"type", "chain"}, {"steps", sentences(chain.steps)}, {"back", sentence_json(run_, chain.back)}};
    }
    Json operator()(const RankGroups& groups) const {
        Json list = Json::array();
        for (const RankGroup& group : groups.groups) {
            list.push_back(
                {{"ranks", sentence_json(run_, group.ranks)}, {"state", group.state}, {"named", group.named}});
        }
        return {{"type", "rank_groups"}, {"groups", list}};
    }
    Json operator()(const Frames& frames) const { return {{"type", "frames"}, {"frames", frames.frames}}; }
    Json operator()(const Commands& commands) const { return {{"type", "commands"}, {"lines", commands.lines}}; }

  private:
    Json sentences(const std::vector<Sentence>& all) const {
        Json list = Json::array();
        for (const Sentence& sentence : all) {
            list.push_back(sentence_json(run_, sentence));
        }
        return list;
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
