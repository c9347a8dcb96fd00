// Fuzzing that is guided by what cases reach: of an instrumented library (src/sites), it keeps cases that reach what
// none before did, makes each smaller, and of all keeps few that still reach everything.
#pragma once

#include <string>
#include <vector>

#include "verify/fuzz.h"

namespace weft {

struct GuidedReport {
    int cases = 0;              // that ran
    std::size_t reached = 0;    // marks: outcomes of conditions, blocks, places of mutants
    std::vector<Trial> corpus;  // passes, and reaches all of them
    std::vector<FuzzReport::Failure> failures;
};

// Starts from a corpus; draws options.cases more.
GuidedReport fuzz_guided(const OpEntry& op, const FuzzOptions& options, const std::vector<Trial>& start);

// A trial as a line of a corpus: the case and what repeats it, "softmax x=… --seed 3 --values usual".
std::string corpus_line(const Trial& trial);
Trial parse_corpus_line(const std::string& line);  // throws Error(invalid_argument)
// The trials of a file, which may be missing; lines that start with # are for people.
std::vector<Trial> read_corpus(const std::string& path);

}  // namespace weft
