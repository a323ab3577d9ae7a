#include "verdict_program.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <stdexcept>

namespace titan::test {

namespace {

using synth::Action;
using synth::Program;

[[noreturn]] void refuse(const std::string& what, std::string_view text) {
    throw std::runtime_error(what + ": \"" + std::string(text) + "\"");
}

template <typename Number>
Number number_in(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) {
        refuse("no number", text);
    }
    return number;
}

template <typename E>
E named(std::string_view name) {
    for (const auto& row : format::rows_of(E{})) {
        if (row.name == name) {
            return row.value;
        }
    }
    refuse("no such name", name);
}

std::string_view trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(' ');
    return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

class Writer {
  public:
    Writer(int rank, int ranks, const Members& communicators, Program& program)
        : rank_(rank), ranks_(ranks), communicators_(communicators), program_(program) {}

    // `round`: of the innermost loop.
    void statements(std::string_view text, int64_t round) {
        while (!trimmed(text).empty()) {
            const size_t end = end_of_statement(text);
            statement(trimmed(text.substr(0, end)), round);
            text.remove_prefix(std::min(text.size(), end + 1));
        }
    }

  private:
    // Semicolons inside of parentheses belong to a loop.
    static size_t end_of_statement(std::string_view text) {
        int depth = 0;
        for (size_t i = 0; i < text.size(); ++i) {
            depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
            if (text[i] == ';' && depth == 0) {
                return i;
            }
        }
        return text.size();
    }

    void statement(std::string_view text, int64_t round) {
        if (text.starts_with("repeat ")) {
            repeat(text);
            return;
        }
        std::vector<std::string> words = words_of(text);
        std::replace(words.begin(), words.end(), std::string("$"), std::to_string(round));
        const std::string verb = words.front();
        words.erase(words.begin());
        const auto known = verbs().find(verb);
        if (known != verbs().end()) {
            known->second(*this, words);
        } else {
            call(named<format::OpKind>(verb), words);
        }
    }

    void repeat(std::string_view text) {
        const size_t open = text.find('(');
        const size_t close = text.rfind(')');
        if (open == std::string_view::npos || close == std::string_view::npos) {
            refuse("a loop has parentheses", text);
        }
        const auto rounds = number_in<int64_t>(trimmed(text.substr(7, open - 7)));
        for (int64_t round = 0; round < rounds; ++round) {
            statements(text.substr(open + 1, close - open - 1), round);
        }
    }

    void call(format::OpKind op, const std::vector<std::string>& words) {
        if (words.empty()) {
            refuse("on which communicator?", format::name_of(op));
        }
        const format::OpClass kind = format::class_of(op);
        const int root = kind == format::OpClass::rooted ? 0 : -1;
        const uint64_t count = op == format::OpKind::kWaitSignal ? 1 : kind == format::OpClass::p2p ? 64 : 1024;
        program_.call(own_of(words[0]), op, count, root);
        for (size_t i = 1; i < words.size(); ++i) {
            argument(words[i]);
        }
    }

    // "tp": whichever of tp:0, tp:1 ... the rank is in.
    std::string own_of(const std::string& name) const {
        for (const auto& [communicator, members] : communicators_) {
            if (communicator.starts_with(name + ":") &&
                std::find(members.begin(), members.end(), rank_) != members.end()) {
                return communicator;
            }
        }
        return name;
    }

    void argument(const std::string& word) {
        Action& action = program_.actions.back();
        const std::string value = word.substr(word.find('=') + 1);
        if (word.starts_with("to=") || word.starts_with("from=")) {
            action.peer = value == "next"       ? (rank_ + 1) % ranks_
                          : value == "previous" ? (rank_ + ranks_ - 1) % ranks_
                                                : number_in<int>(value);
        } else if (word.find_first_not_of("0123456789") == std::string::npos) {
            action.count = number_in<uint64_t>(word);
        } else {
            change_call(word, action);
        }
    }

    // What an all_to_all is for NCCL: sends to all others and receives from them, in one group.
    void exchange(const std::vector<std::string>& words) {
        const auto known = std::find_if(communicators_.begin(), communicators_.end(),
                                        [&](const auto& communicator) { return communicator.first == words.at(0); });
        if (known == communicators_.end()) {
            refuse("no such communicator", words.at(0));
        }
        program_.group_start();
        for (size_t peer = 0; peer < known->second.size(); ++peer) {
            if (known->second[peer] == rank_) {
                continue;
            }
            for (const format::OpKind op : {format::OpKind::kSend, format::OpKind::kRecv}) {
                program_.call(words[0], op, 64, static_cast<int>(peer));
                for (size_t i = 1; i < words.size(); ++i) {
                    argument(words[i]);
                }
            }
        }
        program_.group_end();
    }

    static uint64_t stream_of(const std::vector<std::string>& words) {
        for (const std::string& word : words) {
            if (word.starts_with("stream=")) {
                return number_in<uint64_t>(std::string_view(word).substr(7));
            }
        }
        return Action{}.stream;
    }

    void work(const std::vector<std::string>& words, format::WorkKind kind) {
        program_.work(kind, stream_of(words), number_in<uint64_t>(words.at(0)));
    }

    // "work copy 4096 never_finishes": its kind, its bytes.
    void other_work(const std::vector<std::string>& words) {
        program_.work(named<format::WorkKind>(words.at(0)), stream_of(words), 0x77);
        for (size_t i = 1; i < words.size(); ++i) {
            argument(words[i]);
        }
    }

    using Words = std::vector<std::string>;
    using Verb = std::function<void(Writer&, const Words&)>;
    static const std::map<std::string, Verb, std::less<>>& verbs() {
        static const std::map<std::string, Verb, std::less<>> kVerbs{
            {"step", [](auto& own, auto& words) { own.program_.step(number_in<int64_t>(words.at(0))); }},
            {"span", [](auto& own, auto& words) { own.program_.span(words.empty() ? "" : words[0]); }},
            {"sync", [](auto& own, auto& words) { own.program_.sync(stream_of(words)); }},
            {"sync_other_device", [](auto& own, auto&) { own.program_.sync_other_device(); }},
            {"poll", [](auto& own, auto& words) { own.program_.poll(stream_of(words)); }},
            {"kernel", [](auto& own, auto& words) { own.program_.kernel(words.at(0), stream_of(words)); }},
            {"hanging_kernel",
             [](auto& own, auto& words) { own.program_.hanging_kernel(words.at(0), stream_of(words)); }},
            {"work", &Writer::other_work},
            {"record", [](auto& own, auto& words) { own.work(words, format::WorkKind::kEventRecord); }},
            {"wait", [](auto& own, auto& words) { own.work(words, format::WorkKind::kEventWait); }},
            {"capture", [](auto& own, auto& words) { own.program_.capture(number_in<uint64_t>(words.at(0))); }},
            {"end_capture", [](auto& own, auto&) { own.program_.end_capture(); }},
            {"replay",
             [](auto& own, auto& words) { own.program_.replay(number_in<uint64_t>(words.at(0)), stream_of(words)); }},
            {"exchange", &Writer::exchange},
            {"group", [](auto& own, auto&) { own.program_.group_start(); }},
            {"end_group", [](auto& own, auto&) { own.program_.group_end(); }},
            {"sleep", [](auto& own, auto&) { own.program_.sleep(); }},
            {"pause", [](auto& own, auto&) { own.program_.pause(); }},
            {"die", [](auto& own, auto&) { own.program_.die(); }},
            {"crash", [](auto& own, auto&) { own.program_.crash(); }},
            {"exit", [](auto& own, auto&) { own.program_.exit(); }},
            {"init", [](auto& own, auto& words) { own.program_.init(words.at(0), words.back() == "never_finishes"); }},
            {"split",
             [](auto& own, auto& words) { own.program_.split(words.at(0), words.back() == "never_finishes"); }},
        };
        return kVerbs;
    }

    int rank_;
    int ranks_;
    const Members& communicators_;
    Program& program_;
};

}  // namespace

std::vector<int> ranks_in(std::string_view text, int ranks) {
    std::vector<int> found;
    if (text == "all") {
        for (int rank = 0; rank < ranks; ++rank) {
            found.push_back(rank);
        }
        return found;
    }
    while (!text.empty()) {
        const std::string_view range = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), range.size() + 1));
        const size_t dash = range.find('-');
        const int first = number_in<int>(range.substr(0, dash));
        const int last = dash == std::string_view::npos ? first : number_in<int>(range.substr(dash + 1));
        for (int rank = first; rank <= last; ++rank) {
            found.push_back(rank);
        }
    }
    return found;
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    while (!(text = trimmed(text)).empty()) {
        words.emplace_back(text.substr(0, text.find(' ')));
        text.remove_prefix(words.back().size());
    }
    return words;
}

void write_program(std::string_view text, int rank, int ranks, const Members& communicators, Program& program) {
    Writer(rank, ranks, communicators, program).statements(text, 0);
}

void change_call(std::string_view word, Action& call) {
    const size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    if (key == "count") {
        call.count = number_in<uint64_t>(value);
    } else if (key == "datatype") {
        call.datatype = named<format::Datatype>(value);
    } else if (key == "reduction") {
        call.reduction = named<format::Reduction>(value);
    } else if (key == "op") {
        call.op = named<format::OpKind>(value);
    } else if (key == "root" || key == "peer") {
        call.peer = number_in<int>(value);
    } else if (key == "stream") {
        call.stream = number_in<uint64_t>(value);
    } else if (key == "never_finishes") {
        call.never_finishes = true;
    } else if (key == "fails") {
        call.fails = true;
    } else if (key == "noted_late_ms") {
        call.noted_late_ms = number_in<int64_t>(value);
    } else if (key == "pending" || key == "started") {
        call.recorded = key;
    } else if (key == "retired") {
        call.retired = true;
    } else if (key == "after_ms") {
        call.after_ms = number_in<int64_t>(value);
    } else if (key == "took_ms") {
        call.took_ms = number_in<int64_t>(value);
    } else {
        refuse("no such argument of a call", word);
    }
}

}  // namespace titan::test
