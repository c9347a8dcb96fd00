// What commands share: devices, values and cases by their words on the command line, tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ladder.h"
#include "verify/trial.h"
#include "verify/workload.h"
#include "weft/op.h"

namespace weft::cli {

// "cpu", "emulator", "cuda"; empty: the best here (a GPU, else the emulator, else the CPU). Throws Failure
// where it isn't here.
Device pick_device(const std::string& word);

// "usual", ...; "all" and empty: nothing. Throws Failure.
std::optional<Values> pick_values(const std::string& word);

// "; did you mean this or that?" for names that `word` nearly is; empty where there are none.
std::string suggestion(const std::string& word, const std::vector<std::string>& names);

// An op by name. Throws Failure that names near misses.
const OpEntry& pick_op(const std::string& name);

// Is an implementation that was asked for a rung of the ladder?
bool is_rung(const std::string& implementation);
// A rung by name. Throws Failure that names near misses.
const ladder::Rung& pick_rung(const std::string& name);

// The words of a command: op names, or one case line (quoted or not).
struct Selection {
    std::vector<const OpEntry*> ops;  // all of them where no word was given
    std::optional<Case> single;
};
// With the name of a rung ("ladder/softmax/01_naive") as the implementation that is asked for, they are that rung's, and
// no word means its op. Throws Failure where there is no such rung, or where the words name another op.
Selection select(const std::vector<std::string>& words, const std::string& implementation = "");

struct NamedCase {
    std::string workload;  // "transformer/pi05-geglu-10"; empty where the case came by itself
    Case c;
};
// The rows with a case line of a workload file, or of all files if the path is empty; of one op (its cases are then of
// that entry), or of any.
std::vector<NamedCase> workload_cases(const std::string& path, const OpEntry* op = nullptr);

// Rows under headings, columns as wide as they must be; the last is not padded.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& indent = "");

std::string dtypes_text(DTypeSet set);  // "bf16, fp16, fp32"
std::string option_text(const Option& option, double value);

}  // namespace weft::cli
