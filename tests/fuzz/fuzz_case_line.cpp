// Hostile case lines: whatever parses must print as a line that parses to itself, and survive the checks.
#include "targets.h"
#include "weft/case.h"
#include "weft/error.h"

namespace weft::fuzz {
namespace {

void must_be_a_judgement(const Error& error) {
    must(error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::unsupported, error.what());
    must(!error.message().empty(), "an empty message");
}

// A call that passes its checks is logged as a line; that line must be a fixed point too.
void log_and_read(const Case& parsed) {
    try {
        parsed.check();
    } catch (const Error& error) {
        return must_be_a_judgement(error);
    }
    parsed.with_call(kCpu, [&](const void* call) {
        const std::string logged = Case::of(parsed.op(), call).line();
        const std::string again = Case::parse(logged).line();
        must(again == logged, "'" + logged + "' reads back as '" + again + "'");
    });
}

}  // namespace

void case_line(Input input) {
    try {
        const Case parsed = Case::parse(as_text(input));
        const std::string line = parsed.line();
        try {
            must(Case::parse(line) == parsed, "'" + line + "' parses to another case");
        } catch (const Error& error) {
            must(false, "'" + line + "' does not parse: " + error.what());
        }
        log_and_read(parsed);
    } catch (const Error& error) {
        must_be_a_judgement(error);
    }
}

}  // namespace weft::fuzz
