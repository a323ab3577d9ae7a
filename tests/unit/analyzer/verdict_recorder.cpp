#include "verdict_recorder.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "fr_job.h"

namespace titan::test {

namespace {

using synth::Action;

std::string name_in_pytorch(format::OpKind op) {
    return op == format::OpKind::kBarrier ? "all_reduce_barrier" : std::string(format::name_of(op));
}

std::string name_in_pytorch(format::Datatype datatype) {
    switch (datatype) {
        case format::Datatype::kFloat32: return "Float";
        case format::Datatype::kBfloat16: return "BFloat16";
        default: throw std::runtime_error("no datatype of a Flight Recorder file here");
    }
}

void write_call(FrJob& job, int rank, const Action& action) {
    if (action.kind != Action::kCall) {
        throw std::runtime_error("a Flight Recorder file holds calls only");
    }
    FrCall call{.name = name_in_pytorch(action.op),
                .elements = action.count,
                .datatype = name_in_pytorch(action.datatype),
                .retired = action.retired,
                .took_ms = action.took_ms};
    if (!action.recorded.empty()) {
        call.state = action.recorded == "pending" ? "scheduled" : action.recorded;
    }
    job.pass_ms(rank, action.after_ms);
    if (action.op == format::OpKind::kSend) {
        job.send(rank, action.communicator, action.peer, call);
    } else if (action.op == format::OpKind::kRecv) {
        job.receive(rank, action.communicator, action.peer, call);
    } else {
        job.call(rank, action.communicator, call);
    }
}

}  // namespace

bool RecorderFiles::add(const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    wanted_ = wanted_ || words.front() == "flight_recorder";
    constexpr std::array<std::string_view, 3> kVerbs{"flight_recorder", "written", "overwritten"};
    if (std::find(kVerbs.begin(), kVerbs.end(), words.front()) == kVerbs.end()) {
        return false;
    }
    lines_.push_back(words);
    return true;
}

analyzer::Run RecorderFiles::records(synth::Scenario& job, const Members& communicators,
                                     const std::set<int>& without) const {
    FrJob files(ranks_);
    for (const auto& [name, members] : communicators) {
        files.group(name, name.substr(0, name.find(':')), members);
    }
    for (const auto& words : lines_) {
        if (words.back() == "starts_with_ends") {
            files.note_starts_with_ends();
        }
    }
    for (int rank = 0; rank < ranks_; ++rank) {
        for (const Action& action : job.program(rank).actions) {
            write_call(files, rank, action);
        }
    }
    for (const auto& words : lines_) {
        if (words.front() == "flight_recorder") {
            continue;
        }
        for (const int rank : ranks_in(words.at(1), ranks_)) {
            if (words.front() == "written") {
                files.write_file_at_ms(rank, std::stoll(words.at(2)));
            } else {
                files.forget(rank, std::stoul(words.at(2)));
            }
        }
    }
    for (const int rank : without) {
        files.leave_out_file(rank);
    }
    return files.records();
}

}  // namespace titan::test
