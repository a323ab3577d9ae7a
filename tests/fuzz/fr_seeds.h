// A Flight Recorder dump in both encodings, as seeds: with shared frames, groups, coalesced calls and unfinished ones.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "formats/pickle_writer.h"

namespace titan::fuzz {

inline std::vector<unsigned char> pickle_seed() {
    format::PickleWriter out;
    out.begin_dict().text("version").text("2.10").text("rank").integer(1);
    out.text("pg_config").begin_dict();
    for (const char* name : {"0", "1"}) {
        out.text(name)
            .begin_dict()
            .text("name")
            .text(name)
            .text("desc")
            .text("dp")
            .text("ranks")
            .text("[0, 1]")
            .end_dict();
    }
    out.end_dict();
    out.text("entries").begin_list();
    for (int i = 0; i < 6; ++i) {
        const bool p2p = i % 3 == 2;
        out.begin_dict()
            .text("record_id")
            .integer(i)
            .text("process_group")
            .text(i % 2 == 0 ? "0" : "1")
            .text("dp")
            .pair();
        out.text("collective_seq_id").integer(i / 2 + 1).text("p2p_seq_id").integer(i).text("pg_id").integer(i % 2);
        out.text("profiling_name").text(p2p ? "nccl:send 1->0" : i == 4 ? "nccl:coalesced" : "nccl:all_gather");
        out.text("time_created_ns").integer(1'795'000'000'000'000'000 + i);
        out.text("input_sizes").begin_list().begin_list().integer(16).integer(4).end_list().end_list();
        out.text("input_dtypes").begin_list().text("Float").end_list();
        out.text("output_sizes").begin_list().begin_list().integer(128).end_list().end_list();
        out.text("output_dtypes").begin_list().text("Float").end_list();
        out.text("state").text(i < 4 ? "completed" : "scheduled").text("retired").boolean(i < 4);
        out.text("timeout_ms").integer(600'000).text("is_p2p").boolean(p2p);
        out.text("frames").begin_list().begin_dict().text("name").text("step").text("filename").text("train.py");
        out.text("line").integer(212).end_dict().end_list().end_dict();
    }
    out.end_list().end_dict();
    const auto made = out.finish();
    std::vector<unsigned char> bytes(made.size());
    std::memcpy(bytes.data(), made.data(), made.size());
    return bytes;
}

inline std::vector<unsigned char> json_seed() {
    const std::string text =
        R"({"version":"2.10","rank":1,"pg_config":{"0":{"name":"0","desc":"dp","ranks":"[0, 1]"}},"pg_status":)"
        R"({"0":{"last_enqueued_collective":"2"}},"entries":[{"record_id":0,"process_group":["0","dp"],)"
        R"("collective_seq_id":1,"p2p_seq_id":0,"profiling_name":"nccl:broadcast","input_sizes":[[4,4],[]],)"
        R"("input_dtypes":["Float","Long"],"output_sizes":[[4]],"output_dtypes":"Float","state":"scheduled",)"
        R"("time_created_ns":1795000000000000000,"retired":false,"is_p2p":false},{"record_id":1,)"
        R"("process_group":["0","dp"],"collective_seq_id":1,"profiling_name":"nccl:coalesced","state":"completed",)"
        R"("is_p2p":false,"duration_ms":1.5e3}]})";
    return {text.begin(), text.end()};
}

}  // namespace titan::fuzz
