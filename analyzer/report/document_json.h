// A document as JSON.
#pragma once

#include "document.h"
#include "host/json_value.h"
#include "run.h"

namespace titan::analyzer {

// A sentence is a list of its parts in their order: words as texts, facts as objects with their words as "text".
Json sentence_json(const Run& run, const Sentence& sentence);
Json communicator_json(const Run& run, uint32_t index);
// {"about": sentence, "sections": [{"id", "title", "tone", "lead", "blocks", "sections"}]}; empty parts are left out.
Json document_json(const Run& run, const Document& document);

}  // namespace titan::analyzer
