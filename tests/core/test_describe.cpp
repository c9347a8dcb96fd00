// Contracts and cases as JSON: every member that a contract can have, and that those that it has not are left out.
#include "core/describe.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/core/probe.h"

namespace weft::test {
namespace {

using nlohmann::json;

struct Described {
    static constexpr std::string_view kName = "described";
    enum class Mode { plain, doubled };
    Tensor x{}, table{}, index{}, residual{}, out{}, scale{};
    float eps = 1e-6f;
    std::int64_t groups = 2;
    bool causal = true;
    Mode mode = Mode::doubled;

    static const Contract& contract() {
        using Op = Described;
        static const Contract c =
            Describe<Op>(std::string(kName), "out = x + table[index]")
                .in("x", &Op::x, "rows dim", kHalf, "the rows")
                .layout(Layout::inner)
                .in("index", &Op::index, "rows", DType::int32, "which row of the table")
                .optional()
                .layout(Layout::dense)
                .fill(Fill::index("table"))
                .in("table", &Op::table, "dim", DType::fp32, "what is added")
                .optional()
                .layout(Layout::strided)
                .picked_by("index", "table dim")
                .inout("residual", &Op::residual, "rows dim", kHalf, "the stream")
                .optional()
                .like("x")
                .excludes("index")
                .out("out", &Op::out, "rows dim", kHalf | DType::fp8_e4m3, "the sums")
                .in_place_of("x")
                .out("scale", &Op::scale, "rows ceil(dim/group)", {DType::fp32, DType::fp8_e4m3}, "of groups")
                .optional()
                .partial()
                .sizes_by_dtype("group", {{DType::fp32, 128}, {DType::fp8_e4m3, 16}})
                .dtype_beside("out", {{DType::fp8_e4m3, {DType::fp32, DType::fp8_e4m3}}})
                .option("eps", &Op::eps, 1e-12, 1, "under the root", {1e-6})
                .option("groups", &Op::groups, 1, 8, "so many", {1})
                .option("causal", &Op::causal, "sees no later one")
                .option("mode", &Op::mode, {"plain", "doubled"}, "how often")
                .tolerance("two roundings")
                .source("a paper");
        return c;
    }
};

json described() {
    OpEntry entry;
    entry.contract = &Described::contract;
    AnyImplementation named{};
    named.name = "flat";
    entry.implementations[static_cast<int>(DeviceType::cuda)].push_back(named);
    return describe(entry);
}

void expect(const json& got, const std::string& text) { EXPECT_EQ(got, json::parse(text)); }

TEST(Descriptions, HaveEveryMemberOfAField) {
    const json fields = described().at("fields");
    expect(fields[0], R"json({"name": "x", "role": "in", "optional": false, "axes": "rows dim",
        "dtypes": ["bf16", "fp16"], "layout": "inner", "meaning": "the rows", "in_place_of": [], "rules": []})json");
    expect(fields[1], R"json({"name": "index", "role": "in", "optional": true, "axes": "rows",
        "dtypes": ["int32"], "layout": "dense", "meaning": "which row of the table", "in_place_of": [],
        "rules": ["numbers in [0, table)", "not beside residual"]
})json");
    expect(fields[2], R"json({"name": "table", "role": "in", "optional": true, "axes": "dim",
        "dtypes": ["fp32"], "layout": "strided", "meaning": "what is added", "in_place_of": [], "rules": [],
        "picked_by": "index", "picked_axes": "table dim"})json");
    expect(fields[3], R"json({"name": "residual", "role": "in-out", "optional": true, "axes": "rows dim",
        "dtypes": ["bf16", "fp16"], "layout": "rows", "meaning": "the stream", "in_place_of": [],
        "rules": ["the dtype of x", "not beside index"], "like": ["x"]})json");
    expect(fields[4], R"json({"name": "out", "role": "out", "optional": false, "axes": "rows dim",
        "dtypes": ["bf16", "fp16", "fp8_e4m3"], "layout": "rows", "meaning": "the sums", "in_place_of": ["x"],
        "rules": []})json");
    expect(fields[5], R"json({"name": "scale", "role": "out", "optional": true,
        "axes": "rows ceil(dim/group)", "dtypes": ["fp32", "fp8_e4m3"], "layout": "rows", "meaning": "of groups",
        "in_place_of": [], "rules": ["its dtype goes by that of out"], "partial": true, "sized_axis": "group",
        "sizes_by_dtype": {"fp32": 128, "fp8_e4m3": 16},
        "dtype_beside": {
    "out" : { "fp8_e4m3" : [ "fp32", "fp8_e4m3" ] }}
    })json");
    EXPECT_EQ(fields.size(), 6u);
}

TEST(Descriptions, HaveOptionsOfEveryKind) {
    const json all = described();
    expect(all.at("options"), R"json([
        {"name": "eps", "kind": "real", "default": 1e-06, "meaning": "under the root", "range": [1e-12, 1.0]},
        {"name": "groups", "kind": "integer", "default": 2, "meaning": "so many", "range": [1.0, 8.0]},
        {"name": "causal", "kind": "boolean", "default": true, "meaning": "sees no later one"},
        {"name": "mode", "kind": "choice", "default": "doubled", "meaning": "how often",
         "choices": ["plain", "doubled"]}])json");
    json rest = all;
    rest.erase("options"), rest.erase("fields");
    expect(rest, R"json({"op": "described", "formula": "out = x + table[index]",
        "tolerance": "two roundings", "replaces": "a paper", "deterministic": true,
        "implementations": {"cpu": [], "cuda": ["flat"], "emulator": []}})json");
}

// An op that takes some enumerators of an enumeration, in an order of its own.
enum class Step : std::int32_t { wait, go, stop };
std::string_view name(Step step) { return step == Step::wait ? "wait" : step == Step::go ? "go" : "stop"; }

struct Stepping {
    Tensor x{};
    Step step = Step::go;
};

TEST(Descriptions, AChoiceIsTheWordsPlaceWhateverItsEnumerator) {
    const Contract contract(Describe<Stepping>("stepping", "")
                                .in("x", &Stepping::x, "n", kHalf, "")
                                .option("step", &Stepping::step, {Step::stop, Step::go}, "what is next"));
    const Option& step = contract.options().front();
    Stepping op;
    EXPECT_EQ(Contract::get(&op, step), 1);
    op.step = Step::stop;
    EXPECT_EQ(Contract::get(&op, step), 0);
    op.step = Step::wait;
    EXPECT_EQ(Contract::get(&op, step), -1) << "which it does not take";
    Contract::set(&op, step, 0);
    EXPECT_EQ(op.step, Step::stop);
}

TEST(Descriptions, OfCasesLeaveOutWhatIsUsual) {
    const std::string line =
        "probe x=bf16[4,8]{16,1}+3 weight=fp32[8] out=@x factor=0.5 negate=true mode=doubled";
    expect(describe(Case::parse(line)), R"json({"op": "probe", "case": ")json" + line + R"json(",
        "tensors": {"x": {"dtype": "bf16", "shape": [4, 8], "stride": [16, 1], "offset": 3},
                    "weight": {"dtype": "fp32", "shape": [8]},
                    "out": {"dtype": "bf16", "shape": [4, 8], "stride": [16, 1], "offset": 3, "alias": "x"}},
        "options": {"factor": 0.5, "groups": 0, "negate": true, "mode": "doubled"}})json");
}

TEST(Descriptions, OfWorkNeedTheirOperandBefore) {
    const auto one = +[](const Described&) { return 1.0; };
    EXPECT_NO_THROW(Contract(
        Describe<Described>("d", "").in("x", &Described::x, "n", kHalf, "").flops(one, &Described::x)));
    EXPECT_THROW(
        Contract(
            Describe<Described>("d", "").in("x", &Described::x, "n", kHalf, "").flops(one, &Described::out)),
        Error);
}

}  // namespace
}  // namespace weft::test
