// titan-analyze report: the diagnosis and what lies behind it, as one page for a browser.
#include <fmt/format.h>

#include <memory>
#include <span>

#include "built_in_page.h"
#include "commands.h"
#include "diagnose.h"
#include "diagnosis_document.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "page_data.h"
#include "page_html.h"
#include "read_attempts.h"

namespace titan::analyzer {
namespace {

constexpr const char* kReportFooter =
    R"(One HTML file that needs no network and no server: the verdict with its evidence, who is where, the wait-for
graph, the calls around the hang, late ranks step by step, what takes the time, metrics, stacks, goodput, health, and
what could not be seen. It has a search for ranks, and a link for each finding (docs/use/report.md).

examples:
  titan-analyze report dumps/                       writes titan-report.html
  titan-analyze report dumps/ -o run.html --attempt 1
  titan-analyze report dumps/ --json | jq .waits    what the page shows, for programs

Exit status: 0 written, whatever the verdict, 2 unusable input or arguments, or the file could not be written.)";

constexpr const char* kNoPage =
    "this titan-analyze was built without the page: ./scripts/setup --page builds it (the wheel has it); without it "
    "`titan-analyze report --json` prints what the page would show";

struct ReportArguments {
    CommonOptions common;
    PageOptions options;
    std::string into = "titan-report.html";
    std::string page;
    bool json = false;
    bool html = false;
};

// The page to fill: another one, or that in this program.
Result<std::string> page_of(const ReportArguments& arguments) {
    if (arguments.page.empty()) {
        return built_in_page().empty() ? Result<std::string>(Error(kNoPage)) : std::string(built_in_page());
    }
    const auto file = OpenFile::open(arguments.page);
    if (!file) {
        return file.error().within(printable(arguments.page));
    }
    const auto bytes = file->read_all();
    if (!bytes) {
        return bytes.error().within(printable(arguments.page));
    }
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

int run_report(ReportArguments& arguments) {
    if (arguments.html && arguments.json) {
        return fail("--html and --json: one of them");
    }
    Result<std::string> page = std::string();
    if (!arguments.json) {
        page = page_of(arguments);
        if (!page) {
            return fail(page.error().text());
        }
    }
    LoadOptions load = arguments.common.load_options();
    load.witnesses_alone = true;
    load.with_journals = true;
    auto run = load_run(load);
    if (!run) {
        return fail(run.error().text());
    }
    const TextStyle style = command_line_style(arguments.common);
    PageOptions& options = arguments.options;
    options.version = TITAN_VERSION;
    options.input = style.input;
    options.attempts = [&arguments](const AttemptTimes& of_run) {
        const auto attempts = read_attempts(arguments.common.load_options(), {.newest = of_run},
                                            [](const std::string& why) { say("titan-analyze: {}\n", why); });
        return attempts ? *attempts : std::vector<AttemptTimes>{of_run};
    };
    const Diagnosis diagnosis = diagnose_worlds(*run, options.diagnose);
    Json data = page_data(*run, diagnosis, options);
    if (arguments.json) {
        print_text(data.dump(2) + "\n");
        return kExitHealthy;
    }
    data.make_printable();
    const auto html = page_html(*page, data, text_report(*run, diagnosis, {.input = style.input}));
    if (!html) {
        return fail(html.error().within(printable(arguments.page)).text());
    }
    if (const auto error = write_private_file(arguments.into, std::as_bytes(std::span(*html)))) {
        return fail(error->within(printable(arguments.into)).text());
    }
    print("{}: {} of {}, {:.1f} MB; open it in a browser\n", printable(arguments.into),
          counted(diagnosis.findings.size(), "finding"), counted(run->processes.size(), "rank"),
          static_cast<double>(html->size()) * 1e-6);
    return kExitHealthy;
}

}  // namespace

Command report_command(CommandLine& app) {
    const auto arguments = std::make_shared<ReportArguments>();
    CommandLine& command =
        app.command("report", "Write the verdict and all its evidence as a page for a browser.", kReportFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    command.option("-o,--output", arguments->into, "the file").show_default();
    add_run(command, arguments->common);
    command.option("--hang-after-s", arguments->options.diagnose.hang_after_s, "as for the diagnosis").not_negative();
    command.option("--page", arguments->page, "fill this page instead of the one in this program");
    command.flag("--html", arguments->html, "write the page (default)");
    command.flag("--json", arguments->json, "print what the page shows, as one JSON object");
    return {&command, [arguments] { return run_report(*arguments); }};
}

}  // namespace titan::analyzer
