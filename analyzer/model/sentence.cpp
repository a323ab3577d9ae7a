#include "sentence.h"

#include <algorithm>
#include <iterator>

#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {

std::string Sentence::text() const {
    std::string text;
    for (const Part& part : parts_) {
        text += part.words;
    }
    return text;
}

Sentence& Sentence::operator+=(Part part) {
    if (!part.fact && !parts_.empty() && !parts_.back().fact) {
        parts_.back().words += part.words;
    } else if (part.fact || !part.words.empty()) {
        parts_.push_back(std::move(part));
    }
    return *this;
}

Sentence& Sentence::operator+=(const Sentence& more) {
    for (const Part& part : more.parts_) {
        *this += part;
    }
    return *this;
}

std::vector<std::string> texts_of(const std::vector<Sentence>& sentences) {
    std::vector<std::string> texts;
    std::transform(sentences.begin(), sentences.end(), std::back_inserter(texts),
                   [](const Sentence& sentence) { return sentence.text(); });
    return texts;
}

Sentence ranks_fact(std::vector<int> ranks) {
    sort_unique(ranks);
    std::string text = ranks_text(ranks);
    return {std::move(text), RanksFact{std::move(ranks)}};
}

Sentence rank_fact(int rank) { return ranks_fact({rank}); }

Sentence duration_fact(int64_t duration_ns) { return {duration_text(duration_ns), DurationFact{duration_ns}}; }

Sentence communicator_fact(const Run& run, uint32_t communicator) {
    return {communicator_text(run.communicators[communicator]), CommunicatorFact{communicator}};
}

Sentence call_fact(const Run& run, uint32_t communicator, OpKind kind, uint64_t sequence) {
    return phrase("{} on {}",
                  Sentence(numbered_op_text(kind, sequence), CallFact{communicator, op_text(kind), sequence}),
                  communicator_fact(run, communicator));
}

namespace sentence_detail {

void add_words(Sentence& sentence, std::string_view words) {
    const auto named = std::find_if(sentence.parts().rbegin(), sentence.parts().rend(), [](const Sentence::Part& part) {
        return part.fact && std::holds_alternative<RanksFact>(*part.fact);
    });
    const bool one = named != sentence.parts().rend() && std::get<RanksFact>(*named->fact).ranks.size() == 1;
    std::string chosen;
    for (size_t open = words.find('['); open != std::string_view::npos; open = words.find('[')) {
        const size_t bar = std::min(words.find('|', open), words.size());
        const size_t close = std::min(words.find(']', bar), words.size());
        chosen += words.substr(0, open);
        chosen += one ? words.substr(open + 1, bar - open - 1) : words.substr(bar + 1, close - bar - 1);
        words.remove_prefix(std::min(close + 1, words.size()));
    }
    sentence += Sentence(chosen + std::string(words));
}

Field take_field(std::string_view& pattern) {
    const size_t begin = std::min(pattern.find('{'), pattern.size());
    const size_t end = std::min(pattern.find('}', begin), pattern.size() - 1) + 1;
    const Field next{pattern.substr(0, begin), pattern.substr(begin, end - begin)};
    pattern.remove_prefix(end);
    return next;
}

}  // namespace sentence_detail

}  // namespace titan::analyzer
