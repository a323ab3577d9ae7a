#include "gil.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"
#include "thread_position.h"

namespace titan::analyzer {

const ThreadPosition* gil_holder(const Process& process) {
    const auto found =
        std::ranges::find_if(process.positions, [](const ThreadPosition& position) { return position.held_gil; });
    return found == process.positions.end() || process.python_threads < 2 || process.is_gone() ? nullptr : &*found;
}

Sentence gil_fact(const Process& process, const ThreadPosition& holder) {
    const uint32_t others = process.python_threads - 1;
    const std::string& name = process.text(holder.name);
    return phrase("{} of {} holds the GIL, in {}: its {} other Python {} cannot run",
                  holder.thread == process.pid
                      ? "the main thread"
                      : fmt::format("thread {}{}", holder.thread, name.empty() ? "" : " (" + name + ")"),
                  rank_fact(process.rank), place_text(process, holder), others, plural(others, "thread"));
}

}  // namespace titan::analyzer
