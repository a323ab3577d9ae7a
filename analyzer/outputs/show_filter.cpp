#include "show_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

template <typename T>
bool is_within(const std::optional<std::pair<T, T>>& range, T value) {
    return !range || (value >= range->first && value <= range->second);
}

std::string list_of(const std::set<std::string, std::less<>>& words) {
    return listed({words.begin(), words.end()}, 24);
}

void insert(std::set<std::string, std::less<>>& words, std::string_view word) {
    if (!words.contains(word)) {
        words.emplace(word);
    }
}

}  // namespace

std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    return lower;
}

bool is_called(std::string_view name, std::string_view wanted) {
    const std::string lower = lower_case(name);
    return lower.starts_with(wanted) &&
           (lower.size() == wanted.size() || lower[wanted.size()] == ':' || lower[wanted.size()] == ' ');
}

std::string plain_name(std::string_view name) {
    std::string plain = lower_case(name);
    std::erase(plain, '_');
    return plain.starts_with("nccl") ? plain.substr(4) : plain;
}

ShowFilter::ShowFilter(const ShowOptions& options)
    : options_(options),
      op_(plain_name(options.op)),
      communicator_(lower_case(options.communicator)),
      chooses_(!options.op.empty() || !options.communicator.empty() || !options.state.empty() || options.sequences ||
               options.steps || !options.ranks.empty()) {}

void ShowFilter::note(const CallWords& call) {
    insert(communicators_, call.communicator);
    insert(ops_, call.op);
    insert(states_, call.state);
    if (call.number != kNoSequence) {
        first_number_ = std::min(first_number_, call.number);
        last_number_ = std::max(last_number_, call.number);
    }
    if (call.step >= 0) {
        first_step_ = std::min(first_step_, call.step);
        last_step_ = std::max(last_step_, call.step);
    }
}

bool ShowFilter::fits(const CallWords& call) {
    if (!chooses_) {
        return true;
    }
    if (fitting_ == 0) {
        note(call);
    }
    const bool communicator = communicator_.empty() || is_called(call.communicator, communicator_) ||
                              (!call.other_communicator.empty() && call.other_communicator == options_.communicator) ||
                              (!call.communicator_id.empty() && call.communicator_id.starts_with(communicator_));
    const bool op = op_.empty() || plain_name(call.op) == op_ || plain_name(call.other_op) == op_;
    const bool state = options_.state.empty() || lower_case(options_.state) == call.state;
    op_was_there_ |= op;
    state_was_there_ |= state;
    const bool number =
        !options_.sequences || (call.number != kNoSequence && is_within(options_.sequences, call.number));
    const bool fits = communicator && op && state && number && is_within(options_.steps, call.step);
    fitting_ += fits ? 1 : 0;
    return fits;
}

std::string ShowFilter::nothing_fits(const Run& run) const {
    if (!chooses_ || fitting_ != 0) {
        return {};
    }
    std::vector<int> ranks = mapped(run.processes, &Process::rank);
    std::string text = "no recorded call matches; there are " + ranks_text(ranks);
    if (ops_.empty()) {
        return text;
    }
    if (!op_was_there_) {
        return fmt::format("no recorded call is of operation {}; there are {}", printable(options_.op), list_of(ops_));
    }
    if (!state_was_there_) {
        return fmt::format("no recorded call is in state {}; there are {}", printable(options_.state),
                           list_of(states_));
    }
    text += fmt::format("; of the ranks chosen: communicators {}; operations {}; states {}", list_of(communicators_),
                        list_of(ops_), list_of(states_));
    text += last_number_ >= first_number_ ? fmt::format("; numbers {}-{}", first_number_, last_number_) : "";
    return text + (last_step_ >= first_step_ ? fmt::format("; steps {}-{}", first_step_, last_step_) : "");
}

}  // namespace titan::analyzer
