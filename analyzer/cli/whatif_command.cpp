// titan-analyze whatif PATH...: what would end if ranks had made other calls.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "host/words.h"
#include "whatif_report.h"

namespace titan::analyzer {
namespace {

constexpr const char* kWhatIfFooter =
    R"(A call is written as a report writes it: 'all_reduce #48 on world', 'all_reduce #120 on tp (ranks 4-5)',
'send #40 to rank 5 on pp', 'recv #7 from rank 2 on pp'. --rank names its rank, or the text does:
'rank 3: all_reduce #48 on world'. --insert and --remove may be given several times; all edits apply at once.

An inserted call raises the numbers of the rank's later calls on that communicator by one; a removed call lowers them.
If you remove and insert the same call, the rank makes it as soon as it can, in any order with its other calls.

Then all calls are played by the rules of CUDA and NCCL: streams and the collectives of a communicator in order, groups
and graph launches together. A call ends when all its members have joined and agree; a rank whose host waited in it goes
on and makes the calls that others wait for. The answer follows from the edits and blames no rank: a call that one rank
left out, and a call that all others made too many, free the same waits.

examples:
  titan-analyze whatif dumps/ --alive 5
  titan-analyze whatif dumps/ --rank 3 --insert 'all_reduce #48 on world'
  titan-analyze whatif dumps/ --rank 3 --remove 'all_reduce #48 on world' --insert 'broadcast #48 on world'
  titan-analyze whatif dumps/ --alive 5 --json | jq -c '.remains[] | [.ranks, .missing]'

Exit status: 0 all ranks that wait go on, 1 some still wait, 2 unusable input, or an edit that cannot be made.)";

struct WhatIfArguments {
    CommonOptions common;
    std::string ranks;
    std::vector<std::string> insert;
    std::vector<std::string> remove;
    std::string alive;
    double hang_after_s = 0;
    bool json = false;
};

std::vector<CallEdit> read_edits(const Run& run, const WhatIfArguments& arguments) {
    const std::set<int> chosen = parse_ranks(arguments.ranks);
    const std::vector<int> ranks(chosen.begin(), chosen.end());
    std::vector<CallEdit> edits;
    for (const auto& [kind, texts] : {std::pair(CallEdit::Kind::kRemove, &arguments.remove),
                                      std::pair(CallEdit::Kind::kInsert, &arguments.insert)}) {
        for (const std::string& text : *texts) {
            const std::vector<CallEdit> read = usable(read_call_edits(run, kind, ranks, text));
            edits.insert(edits.end(), read.begin(), read.end());
        }
    }
    for (const int rank : parse_ranks(arguments.alive, "--alive")) {
        if (const std::string unknown = unknown_rank(run, rank); !unknown.empty()) {
            throw Unusable(unknown);
        }
        edits.push_back({CallEdit::Kind::kAlive, rank});
    }
    if (const std::string why = impossible_edit(run, edits); !why.empty()) {
        throw Unusable(why);
    }
    return edits;
}

int run_whatif(const WhatIfArguments& arguments) {
    if (arguments.insert.empty() && arguments.remove.empty() && arguments.alive.empty()) {
        return fail("nothing is to be edited: --insert or --remove a call, or --alive RANK");
    }
    const Run run = load_chosen(arguments.common);
    const std::vector<CallEdit> edits = read_edits(run, arguments);
    const Evidence evidence(run, DiagnoseOptions{.hang_after_s = arguments.hang_after_s});
    const WhatIfReport report = what_if_report(evidence, edits);
    print_text(arguments.json ? what_if_json(evidence, report)
                              : document_text(what_if_document(evidence, report), terminal_style()));
    return report.all_end() ? kExitHealthy : kExitFindings;
}

}  // namespace

Command whatif_command(CommandLine& app) {
    const auto arguments = std::make_shared<WhatIfArguments>();
    CommandLine& command =
        app.command("whatif", "Edit the calls of a rank, and see which waits would end.", kWhatIfFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_ranks(command, arguments->ranks);
    command.option("--insert", arguments->insert, "the rank makes this call, too").one_by_one();
    command.option("--remove", arguments->remove, "the rank does not make this call").one_by_one();
    command.option("--alive", arguments->alive, "these ranks go on, and make the calls that others wait for");
    add_run(command, arguments->common);
    add_hang_after(command, arguments->hang_after_s);
    command.flag("--json", arguments->json, "one JSON object");
    return {&command, [arguments] { return run_whatif(*arguments); }};
}

}  // namespace titan::analyzer
