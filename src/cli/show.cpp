// weft show: all that is known of an op, from its contract.

#include "cli/command.h"
#include "cli/op_page.h"
#include "cli/select.h"
#include "core/describe.h"
#include "core/json_text.h"

namespace weft::cli {
namespace {

struct Arguments {
    std::string op;
    bool json = false, markdown = false;
};

int show(const Arguments& a) {
    const OpEntry& op = pick_op(a.op);
    if (a.json) {
        std::cout << json_text(describe(op), 2) << "\n";
    } else {
        std::cout << (a.markdown ? markdown_page(op) : text_page(op));
    }
    return kPassed;
}

}  // namespace

Command show_command() {
    return {"show", "All about one op: formula, fields, options, tolerance, implementations",
            "Shapes are written in axis names: 'rows dim' is a matrix, '... dim' any leading axes, "
            "'2*hidden' twice an\n"
            "axis, 'ceil(dim/16)' how many groups of 16 hold it, 'pad(rows,128)' the next multiple of 128, "
            "and '...'\n"
            "inside an expression the number of rows. What one call may look like follows from this page:\n"
            "`weft verify OP` draws its cases from it.\n\n"
            "Examples:\n  weft show gemm\n  weft show rms_norm --json\n"
            "  weft show rms_norm --markdown    the op's page of docs/ops\n",
            [](CommandLine& line) -> std::function<int()> {
                auto a = std::make_shared<Arguments>();
                line.add("op", &a->op, "its name").required();
                line.add("--json", &a->json, "print JSON");
                line.add("--markdown", &a->markdown, "print the documentation page");
                return [a] { return show(*a); };
            }};
}

}  // namespace weft::cli
