// titan-analyze why RANK PATH...: one rank in three lines.
#include "why_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "commands.h"
#include "diagnose.h"
#include "host/words.h"
#include "report_parts.h"

namespace titan::analyzer {
namespace {

constexpr const char* kWhyFooter =
    R"(Line 1: what the rank was doing. Line 2: what it waits for, and why that does not end. Line 3: where that
leads.

examples:
  titan-analyze why 3 dumps/
  titan-analyze why 3 dumps/ --json | jq -c '[.waits_for, .by_way_of, .leads_to]'

Exit status: 0 no finding is about the rank, 1 one is, 2 unusable input, or there is no such rank.)";

struct WhyArguments {
    CommonOptions common;
    std::string rank;
    double hang_after_s = 0;
    bool json = false;
};

std::optional<int> parse_rank(const std::string& text) {
    int rank = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    return error == std::errc() && end == text.data() + text.size() && rank >= 0 ? std::optional(rank) : std::nullopt;
}

int run_why(const WhyArguments& arguments) {
    const std::optional<int> rank = parse_rank(arguments.rank);
    if (!rank) {
        return fail("the rank comes first, as a number: titan-analyze why 3 dumps/, not '" + printable(arguments.rank) +
                    "'");
    }
    const auto run = load_run(arguments.common.load_options());
    if (!run) {
        return fail(run.error().text());
    }
    const std::vector<int> known = ranks_of_run(*run);
    if (!std::binary_search(known.begin(), known.end(), *rank)) {
        return fail(fmt::format("there is no rank {} in {}; there {} {}", *rank, run_title(*run),
                                verb_form(known.size(), "is", "are"), ranks_text(known)));
    }
    const DiagnoseOptions options{.hang_after_s = arguments.hang_after_s};
    const Diagnosis diagnosis = diagnose(*run, options);
    const Evidence evidence(*run, options);
    const WhyRank why = why_rank(evidence, diagnosis, *rank);
    print_text(arguments.json ? why_json(*run, evidence, why) : why_text(why));
    return why.about == nullptr ? kExitHealthy : kExitFindings;
}

}  // namespace

Command why_command(CommandLine& app) {
    const auto arguments = std::make_shared<WhyArguments>();
    CommandLine& command =
        app.command("why", "Show what one rank does, what it waits for, and which rank that leads to.", kWhyFooter);
    command.option("RANK", arguments->rank, "the rank").required();
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    add_hang_after(command, arguments->hang_after_s);
    command.flag("--json", arguments->json, "one JSON object");
    return {&command, [arguments] { return run_why(*arguments); }};
}

}  // namespace titan::analyzer
