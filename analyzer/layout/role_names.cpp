// Finds the role of a communicator by its name.
#include <algorithm>
#include <cctype>
#include <set>

#include "layout.h"

namespace titan::analyzer {
namespace {

enum class Word : uint8_t {
    kTensor,
    kData,
    kReplicate,
    kShard,
    kPipeline,
    kContext,
    kSequence,
    kExpert,
    kExpertData,
    kExpertTensor,
    kWorld,
    kEmbedding,
    kModel,  // tensor and pipeline, where it stands alone
    kNoise,
};

struct KnownWord {
    std::string_view text;
    Word word;
    bool spelled = false;
};

constexpr auto kWords = std::to_array<KnownWord>({
    {"tp", Word::kTensor},
    {"tensor", Word::kTensor, true},
    {"dp", Word::kData},
    {"ddp", Word::kData},
    {"hsdp", Word::kData},
    {"data", Word::kData, true},
    {"replicate", Word::kReplicate},
    {"replica", Word::kReplicate},
    {"shard", Word::kShard},
    {"sharded", Word::kShard},
    {"fsdp", Word::kShard},
    {"pp", Word::kPipeline},
    {"pipe", Word::kPipeline},
    {"pipeline", Word::kPipeline},
    {"stage", Word::kPipeline},
    {"cp", Word::kContext},
    {"dcp", Word::kContext},
    {"pcp", Word::kContext},
    {"context", Word::kContext},
    {"sp", Word::kSequence},
    {"sequence", Word::kSequence},
    {"ulysses", Word::kSequence},
    {"ep", Word::kExpert},
    {"expert", Word::kExpert, true},
    {"moe", Word::kExpert, true},
    {"edp", Word::kExpertData},
    {"efsdp", Word::kExpertData},
    {"etp", Word::kExpertTensor},
    {"world", Word::kWorld},
    {"default", Word::kWorld},
    {"global", Word::kWorld},
    {"embedding", Word::kEmbedding},
    {"embd", Word::kEmbedding},
    {"mp", Word::kModel},
    {"model", Word::kModel},
    {"parallel", Word::kNoise},
    {"group", Word::kNoise},
    {"groups", Word::kNoise},
    {"pg", Word::kNoise},
    {"mesh", Word::kNoise},
    {"dim", Word::kNoise},
    {"comm", Word::kNoise},
    {"communicator", Word::kNoise},
    {"nccl", Word::kNoise},
    {"process", Word::kNoise},
    {"rank", Word::kNoise},
    {"ranks", Word::kNoise},
    {"with", Word::kNoise},
    {"attention", Word::kNoise},
    {"attn", Word::kNoise},
    {"position", Word::kNoise},
    {"pos", Word::kNoise},
});

Role one_axis(const std::set<Word>& words, bool spelled) {
    const auto only = [&](std::initializer_list<Word> list) { return words == std::set<Word>(list); };
    struct Rule {
        std::set<Word> words;
        Role role;
        bool spelled = false;
    };
    static const std::vector<Rule> rules{
        {{Word::kTensor}, Role::kTensor},
        {{Word::kData}, Role::kData},
        {{Word::kReplicate}, Role::kDataReplicate},
        {{Word::kData, Word::kReplicate}, Role::kDataReplicate},
        {{Word::kShard}, Role::kDataShard},
        {{Word::kData, Word::kShard}, Role::kDataShard},
        {{Word::kPipeline}, Role::kPipeline},
        {{Word::kContext}, Role::kContext},
        {{Word::kSequence}, Role::kSequence},
        {{Word::kExpert}, Role::kExpert},
        {{Word::kExpertData}, Role::kExpertData},
        {{Word::kExpertTensor}, Role::kExpertTensor},
        {{Word::kExpert, Word::kData}, Role::kExpertData, true},
        {{Word::kExpert, Word::kTensor}, Role::kExpertTensor, true},
        {{Word::kWorld}, Role::kWorld},
    };
    if (words.contains(Word::kEmbedding)) {
        return Role::kEmbedding;
    }
    for (const Rule& rule : rules) {
        if (rule.words == words && (spelled || !rule.spelled)) {
            return rule.role;
        }
    }
    return only({}) ? Role::kNoRole : Role::kSeveral;
}

}  // namespace

Role role_of_name(std::string_view name) {
    std::set<Word> words;
    bool spelled = false;
    bool joined = false;
    bool model = false;
    for (size_t begin = 0; begin < name.size();) {
        if (std::isalpha(static_cast<unsigned char>(name[begin])) == 0) {
            ++begin;
            continue;
        }
        std::string word;
        for (; begin < name.size() && std::isalpha(static_cast<unsigned char>(name[begin])) != 0; ++begin) {
            word += static_cast<char>(std::tolower(static_cast<unsigned char>(name[begin])));
        }
        if (word == "and") {
            joined = true;
            continue;
        }
        const auto known = std::ranges::find_if(kWords, [&](const KnownWord& row) { return row.text == word; });
        if (known == kWords.end()) {
            return Role::kNoRole;
        }
        spelled |= known->spelled;
        model |= known->word == Word::kModel;
        if (known->word != Word::kNoise && known->word != Word::kModel) {
            words.insert(known->word);
        }
    }
    if (words.empty()) {
        return model ? Role::kSeveral : Role::kNoRole;
    }
    return joined ? Role::kSeveral : one_axis(words, spelled);
}

}  // namespace titan::analyzer
