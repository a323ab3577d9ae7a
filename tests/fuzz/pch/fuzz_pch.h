// Precompiled for the copies under sanitizers: the same as for the analyzer.
#include "analyzer_pch.h"
