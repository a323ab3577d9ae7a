// titan-analyze report: the diagnosis and what lies behind it, as one page for a browser.
#include <fmt/format.h>

#include <memory>
#include <span>

#include "brief_lines.h"
#include "commands.h"
#include "diagnose.h"
#include "diagnosis_document.h"
#include "document.h"
#include "evidence.h"
#include "finding.h"
#include "goodput.h"
#include "host/file_bytes.h"
#include "host/json_value.h"
#include "host/mapped.h"
#include "host/result.h"
#include "host/words.h"
#include "late_ranks.h"
#include "page_sections.h"
#include "report_parts.h"
#include "run.h"
#include "run_text.h"
#include "summary_report.h"

namespace titan::analyzer {
namespace {

// --- The page of the HTML report that this program carries.

// Empty where it was built without one (the option -Dpage).
std::string_view built_in_page() {
#ifdef TITAN_PAGE
    return
#include TITAN_PAGE
        ;
#else
    return {};
#endif
}

// --- All that the HTML report shows, as one JSON value. What it says of a run comes from the rungs below: here it is
// chosen, folded where ranks are alike, and cut where the page of a thousand ranks would grow beyond some megabytes.

// The version of what page_data() gives.
inline constexpr int kPageSchema = 2;

struct PageOptions {
    DiagnoseOptions diagnose;
    std::string version;  // of titan-analyze
    std::string input;    // the records, as named on a command line and quoted for the shell
    // All attempts of the run, oldest first, when the one that is looked at is read already.
    std::function<std::vector<AttemptTimes>(const AttemptTimes& of_run)> attempts;
};

Json run_json(const Run& run) {
    Json labels = mapped(shared_labels(run), [](const auto& one) -> Json {
        return {{"name", one.first}, {"value", one.second}};
    });
    int64_t newest_ns = 0;
    for (const Process& process : run.processes) {
        newest_ns = std::max(newest_ns, newest_moment_ns(process));
    }
    return {{"id", run.id},
            {"attempt", run.attempt},
            {"world_size", run.world_size},
            {"ranks", run.ranks.size()},
            {"missing", rank_ranges(run.missing_ranks)},
            {"hosts", run.hosts.size()},
            {"newest_realtime_ns", newest_ns},
            {"labels", std::move(labels)}};
}

// In the order of the document's findings: what a link to one of them is made of, and what to filter by.
Json findings_json(const Diagnosis& diagnosis) {
    return mapped(diagnosis.findings, [](const Finding& finding) -> Json {
        return {{"kind", name_of(finding.kind)},
                {"confidence", name_of(finding.confidence)},
                {"ranks", rank_ranges(finding.ranks)},
                {"victims", rank_ranges(finding.victims)},
                {"hangs", finding.hangs},
                {"meaning", row_of(finding.kind).meaning},
                {"remedy", finding.remedy()}};
    });
}

Json gaps_json(const Run& run, const Diagnosis& diagnosis, const std::vector<std::string>& problems) {
    Json list = mapped(diagnosis.warnings, [](const Warning& warning) -> Json {
        return {{"kind", name_of(warning.kind)},
                {"meaning", row_of(warning.kind).meaning},
                {"ranks", rank_ranges(warning.ranks)},
                {"text", warning.summary}};
    });
    for (const std::string& seen : observing_texts(run)) {
        list.push_back({{"kind", "budget"}, {"meaning", ""}, {"ranks", ""}, {"text", seen}});
    }
    for (const std::string& problem : problems) {
        list.push_back({{"kind", "journal"}, {"meaning", ""}, {"ranks", ""}, {"text", problem}});
    }
    return list;
}

Json goodput_section(const std::vector<AttemptTimes>& attempts) {
    return attempts.empty() ? nothing_because("no attempt has a record of titantrace") : goodput_json(attempts);
}

// Logs have no verdict: the page opens with what their run did.
Document document_of_logs(const RecordReader& reader, const std::vector<std::string>& lines) {
    Section section{.id = "logs", .title = "LOGS", .tone = Tone::kGood};
    section.lead = lines.empty() ? std::string("they have no steps, spans or metrics") : lines.front();
    for (size_t i = 1; i < lines.size(); ++i) {
        section.blocks.emplace_back(Paragraph{lines[i]});
    }
    return {.about = "logs of torchtitan's structured logger, " + counted(reader.processes().size(), "rank"),
            .sections = {std::move(section)}};
}

// docs/use/report.md says what is in it. A section without content has the reason as "none".
Json page_data(const Run& run, const Diagnosis& diagnosis, const PageOptions& options) {
    // Records are opened once for all sections that read them.
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    SummaryOptions sums;
    sums.by_size = true;
    Summary summary(run, sums);
    StepMetrics metrics;
    AttemptReader times(run, nullptr);
    std::map<const Process*, ProcessStacks> stacks_of;
    reader.visit_all({}, [&](const ProcessRecords& records) {
        summary.add(records);
        if (records.process().source.is_flight_recorder) {
            return;  // calls alone
        }
        metrics.add(records);
        times.add(records);
        if (!records.process().source.is_journal) {
            stacks_of[&records.process()] = records.stacks();
        }
    });
    std::vector<ProcessStacks> stacks;
    for (const Process& process : run.processes) {
        const auto read = stacks_of.find(&process);
        stacks.push_back(read != stacks_of.end() ? std::move(read->second) : reader.stacks(process));
    }
    const std::vector<AttemptTimes> attempts = options.attempts(times.times());
    const Evidence evidence(run, options.diagnose);
    const auto [timing, slow] = slowness_of(run);

    Json json;
    json["schema"] = kPageSchema;
    json["version"] = options.version;
    json["run"] = run_json(run);
    const bool has_logs_alone = run.processes.empty() && run.testimony.empty() && !reader.processes().empty();
    json["document"] =
        document_json(run, has_logs_alone ? document_of_logs(reader, brief_lines(summary, metrics, times.times()))
                                          : advised_document(run, diagnosis, options.input));
    json["findings"] = findings_json(diagnosis);
    json["gaps"] = gaps_json(run, diagnosis, reader.problems());
    json["ranks"] = ranks_section(run);
    json["calls"] = calls_section(run);
    json["waits"] = waits_section(evidence);
    json["around"] = around_section(evidence, diagnosis.clocks, diagnosis.findings);
    json["lateness"] = lateness_section(timing, slow);
    json["durations"] = durations_section(summary);
    json["sizes"] = sizes_section(summary);
    json["steps"] = steps_section(run);
    json["metrics"] = metrics_section(metrics);
    json["stacks"] = stacks_section(stacks, symbols.problems());
    json["goodput"] = goodput_section(attempts);
    json["health"] = health_section(run);
    json["settings"] = settings_section(run);
    return json;
}

// --- The HTML report: a page that is built once (page/ in the tree), with the data of a run put into it.

// page/src/page.html has each of them once.
constexpr std::string_view kDataPlace = "@REPORT_DATA@";
constexpr std::string_view kTextPlace = "@REPORT_TEXT@";

// JSON has '<' inside of texts only.
std::string script_safe(const std::string& json) {
    std::string safe;
    safe.reserve(json.size() + json.size() / 64);
    for (const char c : json) {
        if (c == '<') {
            safe += "\\u003c";
        } else {
            safe += c;
        }
    }
    return safe;
}

std::string html_escaped(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        switch (c) {
            case '<': escaped += "&lt;"; break;
            case '>': escaped += "&gt;"; break;
            case '&': escaped += "&amp;"; break;
            default: escaped += c;
        }
    }
    return escaped;
}

// The page with its two places filled: the data, and the report as text for a browser that runs no scripts. Nothing in
// either can end the element that it is in. Error: this is no page of ours.
Result<std::string> page_html(std::string_view page, const Json& data, std::string_view text) {
    const size_t data_at = page.find(kDataPlace);
    const size_t text_at = page.find(kTextPlace);
    if (data_at == std::string_view::npos || text_at == std::string_view::npos || text_at > data_at) {
        return Error(fmt::format("is no page of titantrace: it has no place for {} and {}", kTextPlace, kDataPlace));
    }
    std::string html(page.substr(0, text_at));
    html += html_escaped(printable(text, Keep::kOwnLines));
    html += page.substr(text_at + kTextPlace.size(), data_at - text_at - kTextPlace.size());
    html += script_safe(data.dump());
    html += page.substr(data_at + kDataPlace.size());
    return html;
}

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
    const std::string page = arguments.json ? "" : usable(page_of(arguments));
    LoadOptions load = arguments.common.load_options(true);
    load.witnesses_alone = true;
    Run run = usable(load_run(load));
    const TextStyle style = command_line_style(arguments.common);
    PageOptions& options = arguments.options;
    options.version = TITAN_VERSION;
    options.input = style.input;
    options.attempts = [&arguments](const AttemptTimes& of_run) {
        const auto attempts = read_attempts(arguments.common.load_options(), {.newest = of_run},
                                            [](const std::string& why) { say("titan-analyze: {}\n", why); });
        return attempts ? *attempts : std::vector<AttemptTimes>{of_run};
    };
    const Diagnosis diagnosis = diagnose_worlds(run, options.diagnose);
    Json data = page_data(run, diagnosis, options);
    if (arguments.json) {
        print_text(data.dump(2) + "\n");
        return kExitHealthy;
    }
    data.make_printable();
    const auto html = page_html(page, data, text_report(run, diagnosis, {.input = style.input}));
    if (!html) {
        return fail(html.error().within(printable(arguments.page)).text());
    }
    if (const auto error = write_private_file(arguments.into, std::as_bytes(std::span(*html)))) {
        return fail(error->within(printable(arguments.into)).text());
    }
    print("{}: {} of {}, {:.1f} MB; open it in a browser\n", printable(arguments.into),
          counted(diagnosis.findings.size(), "finding"),
          counted(run.processes.empty() ? run.journals.size() : run.processes.size(), "rank"),
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
    command.flag("--json", arguments->json, "print what the page shows, as one JSON object");
    return {&command, [arguments] { return run_report(*arguments); }};
}

}  // namespace titan::analyzer
