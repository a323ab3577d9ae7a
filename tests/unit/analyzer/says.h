// Whether a text for people holds some words.
#pragma once

#include <string>

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
