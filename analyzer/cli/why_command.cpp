// titan-analyze why RANK PATH...: one rank in three lines.
#include "why_rank.h"

#include <charconv>
#include <memory>

#include "commands.h"
#include "diagnose.h"
#include "host/words.h"
#include "whatif_report.h"

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

int run_why(const WhyArguments& arguments) {
    int rank = -1;
    const std::string& text = arguments.rank;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error != std::errc() || *end != '\0' || rank < 0) {
        return fail("the rank comes first, as a number: titan-analyze why 3 dumps/, not '" + printable(arguments.rank) +
                    "'");
    }
    const Run run = load_chosen(arguments.common);
    if (const std::string unknown = unknown_rank(run, rank); !unknown.empty()) {
        return fail(unknown);
    }
    const DiagnoseOptions options{.hang_after_s = arguments.hang_after_s};
    const Diagnosis diagnosis = diagnose(run, options);
    const Evidence evidence(run, options);
    const WhyRank why = why_rank(evidence, diagnosis, rank);
    print_text(arguments.json ? why_json(run, evidence, why) : why_text(why));
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
