#include "verdict_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>

#include "host/words.h"
#include "played.h"
#include "says.h"
#include "verdict_processes.h"
#include "verdict_program.h"
#include "verdict_recorder.h"

namespace titan::test {

namespace {

using Words = std::vector<std::string>;

std::string after_colon(const std::string& text) {
    const size_t colon = text.find(": ");
    return colon == std::string::npos ? "" : text.substr(colon + 2);
}

bool mentions(const Finding& finding, const std::string& part) {
    return says(finding.summary.text(), part) || std::any_of(finding.evidence.begin(), finding.evidence.end(),
                                                             [&](const auto& line) { return says(line.text(), part); });
}

// The lines that hold for this variant, without their conditions, "[gpu_progress=off] expect nothing", and with its
// values in place of names in braces.
std::vector<std::string> lines_for(const VerdictCase& verdict, const Variant& variant) {
    std::vector<std::string> lines;
    for (const VerdictLine& line : verdict.lines) {
        std::string text = line.text;
        bool holds = true;
        if (text.starts_with('[')) {
            const size_t close = text.find("] ");
            for (const std::string& word : words_of(text.substr(1, close - 1))) {
                const auto value = variant.find(word.substr(0, word.find('=')));
                holds = holds && value != variant.end() && value->second == word.substr(word.find('=') + 1);
            }
            text.erase(0, close + 2);
        }
        for (const auto& [name, value] : variant) {
            for (size_t at; (at = text.find("{" + name + "}")) != std::string::npos;) {
                text.replace(at, name.size() + 2, value);
            }
        }
        if (holds) {
            lines.push_back(text);
        }
    }
    return lines;
}

void set_option(ScenarioOptions& options, const std::string& name, const std::string& value) {
    if (name == "gpu_progress") {
        options.gpu_progress = value != "off";
        for (const auto& row : format::rows_of(format::GpuProgressMethod{})) {
            options.method = row.name == value && options.gpu_progress ? row.value : options.method;
        }
    } else if (name == "collectives") {
        options.collectives = std::stoul(value);
    } else if (name == "stream_work") {
        options.stream_work = std::stoul(value);
    } else if (name == "launch_sample") {
        options.launch_sample = std::stoul(value);
    } else if (name == "hang_s") {
        options.hang_s = std::stod(value);
    } else if (name == "dump_skew_s") {
        options.dump_skew_s = std::stod(value);
    } else if (name == "round_s") {
        options.round_s = std::stod(value);
    } else if (name == "cuda_calls") {
        options.cuda_calls = value == "on";
    }  // else a name that only conditions ask for
}

struct Table {
    int ranks = 0;
    ScenarioOptions options;
    std::set<int> without;
    std::string reason = "timeout";
    analyzer::DiagnoseOptions diagnosis;
};

// What must be known before the job is made.
Table table_of(const std::vector<std::string>& lines, const Variant& variant) {
    Table table;
    for (const auto& [name, value] : variant) {
        set_option(table.options, name, value);
    }
    for (const std::string& line : lines) {
        const Words words = words_of(line);
        if (words[0] == "ranks") {
            table.ranks = std::stoi(words.at(1));
        } else if (words[0] == "set") {
            set_option(table.options, words.at(1), words.at(2));
        } else if (words[0] == "reason") {
            table.reason = words.at(1);
        } else if (words[0] == "hang_after_s") {
            table.diagnosis.hang_after_s = std::stod(words.at(1));
        } else if (words[0] == "without") {
            for (const int rank : ranks_in(words.at(1), table.ranks)) {
                table.without.insert(rank);
            }
        }
    }
    if (const auto reason = variant.find("reason"); reason != variant.end()) {
        table.reason = reason->second;
    }
    return table;
}

class JobWriter {
  public:
    JobWriter(Scenario& job, int ranks) : job_(job), ranks_(ranks) {}

    const Members& members() const { return members_; }

    // False: it is no line of the job.
    bool write(const std::string& line) {
        const Words words = words_of(line);
        if (const auto known = verbs().find(words[0]); known != verbs().end()) {
            known->second(*this, words, after_colon(line));
            return true;
        }
        const bool of_thread = words.size() > 2 && words[1] == "thread";
        const std::string head = words[of_thread ? 2 : 0];
        if (!head.ends_with(':')) {
            return false;
        }
        for (const int rank : ranks_in(words[0].substr(0, words[0].find(':')), ranks_)) {
            Program& program = job_.program(rank);
            write_program(after_colon(line), rank, ranks_, members_,
                          of_thread ? program.thread(std::stoul(head)) : program);
        }
        return true;
    }

  private:
    Program& program_of(const Words& words) { return job_.program(std::stoi(words.at(1))); }
    static size_t number(const Words& words, size_t i) { return std::stoul(words.at(i)); }

    Program piece(const Words& words, const std::string& text) {
        Program program;
        write_program(text, std::stoi(words.at(1)), ranks_, members_, program);
        return program;
    }

    void communicator(const std::string& name, const std::string& ranks, bool unmade = false) {
        members_.emplace_back(name, ranks_in(ranks, ranks_));
        job_.communicator(name, members_.back().second, unmade);
    }

    void training(const Words& words) {
        int buckets = 3;
        bool sync = true;
        for (const std::string& word : words) {
            buckets = word.starts_with("buckets=") ? std::stoi(word.substr(8)) : buckets;
            sync = sync && word != "sync=no";
        }
        synth::write_training(job_, std::stoi(words.at(1)), buckets, sync);
    }

    void insert_at_step(const Words& words, const std::string& text) {
        std::vector<synth::Action>& actions = program_of(words).actions;
        const Program what = piece(words, text);
        const auto step = std::find_if(actions.begin(), actions.end(), [&](const synth::Action& action) {
            return action.kind == synth::Action::kStep && action.step == std::stoi(words.at(2));
        });
        if (step == actions.end()) {
            throw std::runtime_error("no such step");
        }
        actions.insert(step + 1, what.actions.begin(), what.actions.end());
    }

    void change(const Words& words, const std::string& text) {
        for (const int rank : ranks_in(words.at(1), ranks_)) {
            for (const std::string& word : words_of(text)) {
                change_call(word, job_.program(rank).nth_call(words.at(2), std::stoul(words.at(3))));
            }
        }
    }

    using Verb = std::function<void(JobWriter&, const Words&, const std::string&)>;
    static const std::map<std::string, Verb>& verbs() {
        static const std::map<std::string, Verb> kVerbs{
            {"communicator", [](auto& own, auto& words,
                                auto&) { own.communicator(words.at(1), words.at(2), words.back() == "unmade"); }},
            {"communicators",
             [](auto& own, auto& words, auto&) {
                 for (size_t i = 2; i < words.size(); ++i) {
                     own.communicator(words[1] + ":" + std::to_string(i - 2), words[i]);
                 }
             }},
            {"split", [](auto& own, auto& words,
                         auto&) { own.job_.split_of(words.at(3), words.at(1), ranks_in(words.at(4), own.ranks_)); }},
            {"training", [](auto& own, auto& words, auto&) { own.training(words); }},
            {"insert",
             [](auto& own, auto& words, auto& text) {
                 own.program_of(words).insert_before(words.at(2), number(words, 3), own.piece(words, text));
             }},
            {"insert_at_step", &JobWriter::insert_at_step},
            {"skip", [](auto& own, auto& words, auto&) { own.program_of(words).skip(words.at(2), number(words, 3)); }},
            {"swap",
             [](auto& own, auto& words, auto&) {
                 std::swap(own.program_of(words).nth_call(words.at(2), number(words, 3)),
                           own.program_of(words).nth_call(words.at(4), number(words, 5)));
             }},
            {"change", [](auto& own, auto& words, auto& text) { own.change(words, text); }},
        };
        return kVerbs;
    }

    Scenario& job_;
    int ranks_;
    Members members_;
};

class Judge {
  public:
    Judge(const Played& played, int ranks) : played_(played), ranks_(ranks) {}

    // False: it is no line of what is expected.
    bool check(const std::string& line) {
        const Words words = words_of(line);
        const auto known = verbs().find(words[0]);
        if (known != verbs().end()) {
            CAPTURE(line);
            known->second(*this, words, line.size() > words[0].size() ? line.substr(words[0].size() + 1) : "");
        }
        return known != verbs().end();
    }

  private:
    void head(const Words& words) {
        if (words.at(1) == "nothing") {
            CHECK(played_.healthy());
            return;
        }
        REQUIRE_FALSE(played_.healthy());
        at_ = 0;
        finding(words);
    }

    void next(const Words& words) {
        REQUIRE(++at_ < played_.diagnosis.findings.size());
        finding(words);
    }

    void finding(const Words& words) {
        CAPTURE(played_.diagnosis.findings[at_].summary.text());
        check(played_.diagnosis.findings[at_], words);
    }

    void check(const Finding& found, const Words& words) {
        if (words.at(1) != "something") {
            CHECK(std::string(analyzer::name_of(found.kind)) == words[1]);
        }
        for (size_t i = 2; i < words.size(); ++i) {
            const size_t equals = words[i].find('=');
            property(found, words[i].substr(0, equals), words[i].substr(equals + 1));
        }
    }

    void property(const Finding& found, const std::string& name, const std::string& value) {
        if (name == "ranks") {
            CHECK(rank_ranges(found.ranks) == value);
        } else if (name == "victims") {
            CHECK(rank_ranges(found.victims) == value);
        } else if (name == "call") {
            CHECK(std::to_string(found.sequence) == value);
        } else if (name == "op") {
            CHECK(found.op == value);
        } else if (name == "on") {
            CHECK(played_.run.communicators.at(found.communicator).name == value);
        } else if (name == "confidence") {
            CHECK(std::string(analyzer::name_of(found.confidence)) == value);
        } else if (name == "hangs") {
            CHECK(found.hangs == (value == "yes"));
        } else if (name == "cycle") {
            CHECK(std::to_string(found.cycle.size()) == value);
        } else {
            throw std::runtime_error("no such property of a finding: " + name);
        }
    }

    // The longest wait that is no hang yet.
    void waits(const Words& words) {
        REQUIRE_FALSE(played_.diagnosis.waiting.empty());
        const analyzer::Pending& wait = played_.diagnosis.waiting.front();
        for (size_t i = 1; i < words.size(); ++i) {
            const std::string key = words[i].substr(0, words[i].find('='));
            const std::string value = words[i].substr(std::min(key.size() + 1, words[i].size()));
            if (key == "ranks") {
                CHECK(rank_ranges(wait.ranks) == value);
            } else if (key == "for") {
                CHECK(rank_ranges(wait.missing) == value);
            } else if (key == "hang_after_s") {
                CHECK(wait.hang_after_ns == std::stoll(value) * 1'000'000'000);
            } else if (key == "op") {
                CHECK(wait.op == value);
            } else {
                throw std::runtime_error("no such property of a wait: " + key);
            }
        }
    }

    void each(const Words& words) {
        for (const Finding& found : played_.diagnosis.findings) {
            CAPTURE(found.summary.text());
            check(found, words);
        }
    }

    std::string report() const { return analyzer::text_report(played_.run, played_.diagnosis, {}); }

    const Finding& current() const { return played_.diagnosis.findings.at(at_); }

    void confirm(const std::string& text) {
        const auto& would = current().would_confirm;
        CHECK(std::any_of(would.begin(), would.end(), [&](const auto& line) { return says(line.text(), text); }));
    }

    void state(const Words& words, const std::string& text) {
        CHECK(says(current().rank_state.at(std::stoi(words.at(1))), text.substr(words[1].size() + 1)));
    }

    void warns(const Words& words, const std::string& text) {
        const auto& all = played_.diagnosis.warnings;
        CHECK(std::any_of(all.begin(), all.end(), [&](const auto& warning) {
            if (words.size() > 2 && words[2].starts_with("ranks=")) {
                return name_of(warning.kind) == words[1] && rank_ranges(warning.ranks) == words[2].substr(6);
            }
            return name_of(warning.kind) == words.at(1) &&
                   (words.size() < 3 || says(warning.summary, text.substr(words[1].size() + 1)));
        }));
    }

    void certain_only(const std::string& who) {
        for (const Finding& found : played_.diagnosis.findings) {
            CAPTURE(found.summary.text());
            CHECK((found.confidence != Confidence::kCertain || rank_ranges(found.ranks) == who));
        }
    }

    void never(const std::string& kind) {
        for (const Finding& found : played_.diagnosis.findings) {
            CHECK(std::string(analyzer::name_of(found.kind)) != kind);
        }
    }

    void never_says(const std::string& text) {
        for (const Finding& found : played_.diagnosis.findings) {
            CHECK_FALSE(says(found.summary.text(), text));
        }
    }

    using Verb = std::function<void(Judge&, const Words&, const std::string&)>;
    static const std::map<std::string, Verb>& verbs() {
        static const std::map<std::string, Verb> kVerbs{
            {"expect", [](auto& own, auto& words, auto&) { own.head(words); }},
            {"then", [](auto& own, auto& words, auto&) { own.next(words); }},
            {"findings", [](auto& own, auto&,
                            auto& text) { CHECK(std::to_string(own.played_.diagnosis.findings.size()) == text); }},
            {"says", [](auto& own, auto&, auto& text) { CHECK(mentions(own.current(), text)); }},
            {"says_not", [](auto& own, auto&, auto& text) { CHECK_FALSE(mentions(own.current(), text)); }},
            {"summary", [](auto& own, auto&, auto& text) { CHECK(says(own.current().summary.text(), text)); }},
            {"summary_not",
             [](auto& own, auto&, auto& text) { CHECK_FALSE(says(own.current().summary.text(), text)); }},
            {"summary_ends", [](auto& own, auto&, auto& text) { CHECK(own.current().summary.text().ends_with(text)); }},
            {"evidence",
             [](auto& own, auto&, auto& text) {
                 const auto lines = analyzer::texts_of(own.current().evidence);
                 CHECK(std::count(lines.begin(), lines.end(), text) == 1);
             }},
            {"first_confirm",
             [](auto& own, auto&, auto& text) {
                 REQUIRE_FALSE(own.current().would_confirm.empty());
                 CHECK(says(own.current().would_confirm.front().text(), text));
             }},
            {"each", [](auto& own, auto& words, auto&) { own.each(words); }},
            {"cannot_tell", [](auto& own, auto&, auto& text) { CHECK(says(own.played_.diagnosis.cannot_tell, text)); }},
            {"can_tell", [](auto& own, auto&, auto&) { CHECK(own.played_.diagnosis.cannot_tell == ""); }},
            {"waits", [](auto& own, auto& words, auto&) { own.waits(words); }},
            {"waiting",
             [](auto& own, auto&, auto& text) { CHECK(std::to_string(own.played_.diagnosis.waiting.size()) == text); }},
            {"report",
             [](auto& own, auto&, auto& text) {
                 const std::string report = own.report();
                 CAPTURE(report);
                 CHECK(says(report, text));
             }},
            {"report_not", [](auto& own, auto&, auto& text) { CHECK_FALSE(says(own.report(), text)); }},
            {"missing",
             [](auto& own, auto&, auto& text) { CHECK(rank_ranges(own.played_.run.missing_ranks) == text); }},
            {"confirm", [](auto& own, auto&, auto& text) { own.confirm(text); }},
            {"state", &Judge::state},
            {"warns", &Judge::warns},
            {"certain_only", [](auto& own, auto&, auto& text) { own.certain_only(text); }},
            {"never", [](auto& own, auto&, auto& text) { own.never(text); }},
            {"never_says", [](auto& own, auto&, auto& text) { own.never_says(text); }},
        };
        return kVerbs;
    }

    const Played& played_;
    int ranks_;
    size_t at_ = 0;
};

bool is_of_the_table(const std::string& line) {
    static const std::set<std::string> kWords{"ranks", "vary", "set", "reason", "hang_after_s", "without"};
    return kWords.contains(words_of(line)[0]);
}

}  // namespace

std::vector<VerdictCase> read_verdict_files(const std::string& directory) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        if (entry.path().extension() == ".txt") {
            paths.push_back(entry.path());
        }
    }
    std::sort(paths.begin(), paths.end());
    std::vector<VerdictCase> cases;
    for (const std::filesystem::path& path : paths) {
        std::ifstream file(path);
        int number = 0;
        for (std::string line; std::getline(file, line);) {
            ++number;
            if (line.empty() || line.starts_with('#')) {
                continue;
            }
            if (line.starts_with("== ")) {
                cases.push_back({path.filename().string(), {number, line.substr(3)}, {}});
            } else if (cases.empty() || cases.back().file != path.filename()) {
                throw std::runtime_error(path.string() + ":" + std::to_string(number) + ": no case begins before it");
            } else if (line.starts_with("  ")) {
                cases.back().lines.back().text += " " + line.substr(line.find_first_not_of(' '));
            } else {
                cases.back().lines.push_back({number, line});
            }
        }
    }
    return cases;
}

std::vector<Variant> variants_of(const VerdictCase& verdict) {
    std::vector<Variant> variants{{}};
    for (const VerdictLine& line : verdict.lines) {
        const Words words = words_of(line.text);
        if (words[0] != "vary") {
            continue;
        }
        std::vector<Variant> more;
        for (const Variant& variant : variants) {
            for (size_t i = 2; i < words.size(); ++i) {
                more.push_back(variant);
                more.back()[words[1]] = words[i];
            }
        }
        variants = std::move(more);
    }
    return variants;
}

void judge_verdict(const VerdictCase& verdict, const Variant& variant) {
    const std::vector<std::string> lines = lines_for(verdict, variant);
    const Table table = table_of(lines, variant);
    Scenario job(table.ranks, table.options);
    JobWriter writer(job, table.ranks);
    ProcessChanges changes(table.ranks);
    RecorderFiles files(table.ranks);
    std::vector<std::string> expected;
    for (const std::string& line : lines) {
        if (!is_of_the_table(line) && !writer.write(line) && !changes.add(line) && !files.add(line)) {
            expected.push_back(line);
        }
    }
    if (!files.wanted()) {
        job.play();
        changes.change(job);
    }
    const auto records = [&] {
        Run run = files.wanted() ? files.records(job, writer.members(), table.without)
                                 : records_of(job, table.without, table.reason);
        changes.change(run);
        return run;
    };
    const Played played = judged(records, table.diagnosis);
    Judge judge(played, table.ranks);
    CHECK_FALSE(expected.empty());
    for (const std::string& line : expected) {
        if (!judge.check(line)) {
            throw std::runtime_error(verdict.file + ": " + verdict.title.text + ": cannot be read: " + line);
        }
    }
}

}  // namespace titan::test
