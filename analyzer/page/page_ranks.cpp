// Where each rank runs, whether it lives, and what it does.
#include "layout.h"
#include "page_sections.h"
#include "rank_state.h"
#include "report_parts.h"

namespace titan::analyzer {

Json ranks_section(const Run& run) {
    SharedTexts texts;
    Json rows = Json::array();
    for (const Process& process : run.processes) {
        const std::string state = rank_state(run, process);
        for (const int rank : ranks_of(process)) {
            const std::string place = run.layout == nullptr ? std::string() : run.layout->place_text(rank);
            Json row = Json::array();
            row.push_back(rank);
            row.push_back(process.pid);
            row.push_back(process.step);
            for (const std::string& text :
                 {process.host, place, std::string(status_of(process)), state, process.source.label}) {
                row.push_back(texts.number_of(text));
            }
            rows.push_back(std::move(row));
        }
    }
    if (rows.empty()) {
        return nothing_because("no rank left a record");
    }
    return {{"columns", std::vector<std::string>{"rank", "pid", "step", "host", "place", "status", "state", "file"}},
            {"rows", std::move(rows)},
            {"texts", texts.json()}};
}

}  // namespace titan::analyzer
