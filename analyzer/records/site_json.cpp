#include "site_json.h"

namespace titan::analyzer {

Json inlined_json(const StackSite& site) {
    Json json = Json::array();
    for (const InlinedSite& inlined : site.inlined) {
        json.push_back({{"function", inlined.function}, {"file", inlined.file}, {"line", inlined.line}});
    }
    return json;
}

}  // namespace titan::analyzer
