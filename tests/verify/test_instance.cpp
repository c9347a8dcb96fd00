// A case with memory: what stands where, what a reset brings back, and which of its bytes are outputs'.
#include "verify/instance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "verify/part.h"
#include "verify/verify.h"
#include "verify/written.h"
#include "weft/op.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

struct Held {
    static constexpr std::string_view kName = "held";
    Tensor x{}, packed{}, state{}, out{}, pairs{}, some{};
    static inline void (*does)(const Held&, Context&) = nullptr;

    static const Contract& contract() {
        using Op = Held;
        static const Contract c = Describe<Op>(std::string(kName), "out = 0")
                                      .in("x", &Op::x, "... dim", kFloat, "the rows")
                                      .layout(Layout::strided)
                                      .in("packed", &Op::packed, "... dim", DType::fp4_e2m1, "pairs")
                                      .optional()
                                      .layout(Layout::dense)
                                      .inout("state", &Op::state, "... dim", DType::fp32, "read and written")
                                      .optional()
                                      .out("out", &Op::out, "... dim", kFloat, "the result")
                                      .layout(Layout::strided)
                                      .in_place_of("x")
                                      .out("pairs", &Op::pairs, "... dim", DType::fp4_e2m1, "pairs")
                                      .optional()
                                      .layout(Layout::dense)
                                      .out("some", &Op::some, "... dim", DType::fp32, "written in part")
                                      .optional()
                                      .partial()
                                      .independent({"..."})
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};
void reference(const Held&, Oracle&) {}
const RegisterReference<Held> kReference{reference};
const RegisterImplementations<Held> kList{
    DeviceType::cpu,
    {{"doing", +[](const Held&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Held&, const DeviceInfo&) { return std::string("so"); },
      +[](const Held& op, Context& context) {
          if (Held::does != nullptr) Held::does(op, context);
      }}}};

#if !defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kGuard = Instance::kGuard;
#else
constexpr std::size_t kGuard = 0;
#endif

std::vector<std::byte> read(const Instance& instance, std::size_t field) {
    std::vector<std::byte> bytes;
    instance.read(field, bytes);
    return bytes;
}

std::size_t field(const Case& c, std::string_view name) {
    return static_cast<std::size_t>(c.contract().find_field(name));
}

TEST(Instances, HavePoisonAroundAndInOutputs) {
    const Case c = Case::parse("held x=bf16[3,8]+5 state=fp32[3,8] some=fp32[3,8]");
    const Instance instance(c, kCpu, 5, Values::usual, 0xa5);
    const auto x = read(instance, 0), state = read(instance, field(c, "state")),
               out = read(instance, field(c, "out"));
    EXPECT_EQ(x.size(), 2 * kGuard + 2 * (24 + 5));
    EXPECT_EQ(out.size(), 2 * kGuard + 2 * 24);
    EXPECT_EQ(state.size(), 2 * kGuard + 4 * 24);
    EXPECT_TRUE(read(instance, field(c, "packed")).empty());
    EXPECT_EQ(instance.memory(field(c, "packed")), nullptr);
    EXPECT_EQ(instance.first_byte(0), kGuard + 10);
    EXPECT_EQ(instance.first_byte(field(c, "out")), kGuard);
    const auto poisoned = [](const std::vector<std::byte>& bytes, std::size_t begin, std::size_t end) {
        return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                           bytes.begin() + static_cast<std::ptrdiff_t>(end),
                           [](std::byte b) { return b == std::byte{0xa5}; });
    };
    EXPECT_TRUE(poisoned(out, 0, out.size()));
    EXPECT_TRUE(poisoned(x, 0, instance.first_byte(0)) && poisoned(x, x.size() - kGuard, x.size()));
    EXPECT_TRUE(poisoned(state, 0, kGuard) && poisoned(state, state.size() - kGuard, state.size()));
    EXPECT_FALSE(poisoned(x, kGuard + 10, kGuard + 14) || poisoned(state, kGuard, kGuard + 8));
    const auto some = read(instance, field(c, "some"));
    EXPECT_FALSE(poisoned(some, kGuard, kGuard + 8)) << "what may stay as it is has values, too";
    EXPECT_EQ(x, instance.initial(0));
    const auto* call = static_cast<const Held*>(instance.call());
    EXPECT_EQ(call->x.data, static_cast<char*>(instance.memory(0)) + instance.first_byte(0));
    EXPECT_EQ(call->state.data, static_cast<char*>(instance.memory(field(c, "state"))) + kGuard);
    EXPECT_FALSE(call->packed);
    EXPECT_EQ(read(Instance(c, kCpu, 5, Values::usual), field(c, "out"))[0], std::byte{0xff});
}

TEST(Instances, FillEachFieldFromASeedOfItsOwn) {
    const Case c = Case::parse("held x=fp32[3,8] state=fp32[3,8]");
    const Instance instance(c, kCpu, 5, Values::usual);
    EXPECT_NE(read(instance, 0), read(instance, field(c, "state")));
}

TEST(Instances, AreResetToWhatTheyWere) {
    const Case c = Case::parse("held x=fp32[3,8] state=fp32[3,8] some=fp32[3,8]");
    Instance instance(c, kCpu, 5, Values::usual, 0x37);
    const auto scribble = [&] {
        for (std::size_t i = 0; i < c.tensors.size(); ++i) {
            if (instance.memory(i) != nullptr)
                std::memset(instance.memory(i), 0x11, instance.initial(i).size());
        }
    };
    scribble();
    instance.reset();
    for (const char* name : {"state", "out", "some"})
        EXPECT_EQ(read(instance, field(c, name)), instance.initial(field(c, name))) << name;
    EXPECT_EQ(read(instance, 0)[kGuard], std::byte{0x11}) << "inputs are only read";
    const Case shared = Case::parse("held x=fp32[3,8] out=@x");
    Instance other(shared, kCpu, 5, Values::usual, 0x37);
    std::memset(other.memory(0), 0x11, other.initial(0).size());
    other.reset();
    EXPECT_EQ(read(other, 0), other.initial(0)) << "an input that an output shares";
}

TEST(Instances, OverMemoryOfOthersHaveTheSameContents) {
    const Case c = Case::parse("held x=bf16[3,8]+5 packed=fp4_e2m1[3,8] state=fp32[3,8]");
    const Instance like(c, kCpu, 5, Values::usual, 0x5a);
    const auto padded = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    EXPECT_EQ(like.footprint(), padded(2 * kGuard + 58) + padded(2 * kGuard + 12) + padded(2 * kGuard + 96) +
                                    padded(2 * kGuard + 48));
    std::vector<std::max_align_t> memory((like.footprint() + 256) / sizeof(std::max_align_t));
    auto* base = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 255) / 256 * 256);
    const Instance over(like, base);
    char* at = base;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        EXPECT_EQ(read(over, i), read(like, i)) << i;
        if (like.memory(i) == nullptr) {
            EXPECT_EQ(over.memory(i), nullptr);
            continue;
        }
        EXPECT_EQ(over.memory(i), at) << "one after the other, each aligned";
        at += padded(like.initial(i).size());
    }
    EXPECT_EQ(static_cast<const Held*>(over.call())->x.data, base + kGuard + 10);
    EXPECT_EQ(over.device(), kCpu);
    EXPECT_EQ(over.footprint(), like.footprint());
}

// ---- the bytes of outputs ----

std::vector<std::pair<std::int64_t, std::int64_t>> spans(const std::string& line, std::string_view owner) {
    const Case c = Case::parse(line);
    const Instance instance(c, kCpu, 5, Values::usual);
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const Span span : written_spans(instance, field(c, owner)))
        found.emplace_back(span.begin - static_cast<std::int64_t>(kGuard),
                           span.end - static_cast<std::int64_t>(kGuard));
    return found;
}

TEST(WrittenBytes, AreThoseOfTheElementsOfOutputs) {
    using P = std::pair<std::int64_t, std::int64_t>;
    EXPECT_THAT(spans("held x=bf16[3,8]", "out"), ElementsAre(P{0, 48}));
    EXPECT_TRUE(spans("held x=bf16[3,8]", "x").empty());
    EXPECT_THAT(spans("held x=bf16[3,8] out=@x", "x"), ElementsAre(P{0, 48}));
    EXPECT_THAT(spans("held x=fp32[3,2] out=fp32[3,2]{5,1}+1", "out"),
                ElementsAre(P{4, 12}, P{24, 32}, P{44, 52}));
    EXPECT_THAT(spans("held x=fp32[2,3] out=fp32[2,3]{1,2}", "out"), ElementsAre(P{0, 24}))
        << "merged, in order";
    EXPECT_THAT(spans("held x=fp32[2,2] out=fp32[2,2]{1,4}", "out"), ElementsAre(P{0, 8}, P{16, 24}));
    EXPECT_THAT(spans("held x=fp32[3,8] pairs=fp4_e2m1[3,8]", "pairs"), ElementsAre(P{0, 12}));
    EXPECT_THAT(spans("held x=fp32[3,8] state=fp32[3,8]", "state"), ElementsAre(P{0, 96}));
}

TEST(WrittenBytes, HaveAHashThatTellsWhereTheyAre) {
    std::vector<std::byte> bytes(64), swapped(64);
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = swapped[32 + i] = std::byte{1};
    const std::vector<Span> two = {{0, 8}, {32, 40}};
    const auto hash = [&](const std::vector<std::byte>& now) { return examine(now, now, two, 1).hash; };
    EXPECT_EQ(hash(bytes), hash(bytes));
    EXPECT_NE(hash(bytes), hash(swapped));
    EXPECT_NE(hash(bytes), 0u);
    EXPECT_EQ(examine(bytes, bytes, {}, 1).hash, 0u) << "nothing is written";
    EXPECT_EQ(examine(bytes, swapped, two, 1).changed, -1);
    EXPECT_EQ(examine(bytes, swapped, {}, 1).changed, 0) << "the first";
    EXPECT_EQ(examine(bytes, swapped, {{0, 4}}, 2).changed, 4);
}

// ---- parts ----

std::vector<std::string> cuts(const std::string& line) {
    std::vector<std::string> found;
    for (const Cut& cut : cuts_of(Case::parse(line)))
        found.push_back(cut.name + "=" + std::to_string(cut.size));
    return found;
}

std::string part(const std::string& line, const Part& part) {
    const Case c = Case::parse(line);
    const Case less = part_case(c, cuts_of(c), part);
    EXPECT_NO_THROW(less.check()) << less.line();
    return less.line();
}

TEST(PartsOfCalls, AreCutWhereEveryOutputGoesAlong) {
    EXPECT_THAT(cuts("residual_add x=bf16[3,4,8] residual=bf16[3,4,8]"), ElementsAre("...=3", "...=4"));
    EXPECT_THAT(cuts("residual_add x=bf16[3,4,8] residual=bf16[3,4,8] gate=bf16[3,1,8]"),
                ElementsAre("...=3", "...=4"));
    EXPECT_THAT(cuts("residual_add x=bf16[3,4,8] residual=bf16[3,4,8] gate=bf16[3,2,1,8]"),
                ElementsAre("...=3"))
        << "frames keep the tokens together";
    EXPECT_THAT(cuts("residual_add x=bf16[1,1,8] residual=bf16[1,1,8]"), ElementsAre());
    EXPECT_THAT(cuts("residual_add x=bf16[8] residual=bf16[8]"), ElementsAre());
}

TEST(PartsOfCalls, HaveTheirShareOfWhatBroadcasts) {
    EXPECT_EQ(part("residual_add x=bf16[3,4,8] residual=bf16[3,4,8] gate=bf16[3,1,8]", {{1, 3}, {1, 4}}),
              "residual_add x=bf16[2,3,8] residual=bf16[2,3,8] gate=bf16[2,1,8] out=bf16[2,3,8]");
    EXPECT_EQ(part("residual_add x=bf16[3,4,8] residual=bf16[3,4,8] gate=bf16[8]", {{1, 3}, {1, 4}}),
              "residual_add x=bf16[2,3,8] residual=bf16[2,3,8] gate=bf16[8] out=bf16[2,3,8]");
    EXPECT_EQ(part("residual_add x=bf16[3,4,8] residual=bf16[3,4,8] gate=bf16[3,8]", {{1, 3}, {1, 4}}),
              "residual_add x=bf16[2,3,8] residual=bf16[2,3,8] gate=bf16[2,8] out=bf16[2,3,8]");
    EXPECT_EQ(part("residual_add x=bf16[3,4,8] residual=bf16[3,4,8] gate=bf16[3,4,1]", {{1, 3}, {1, 4}}),
              "residual_add x=bf16[2,3,8] residual=bf16[2,3,8] gate=bf16[2,3,1] out=bf16[2,3,8]");
}

TEST(PartsOfCalls, LeaveTablesWhoseRowsArePickedWhole) {
    const std::string line =
        "residual_add x=bf16[3,4,8] residual=bf16[3,4,8] gate=bf16[5,8] index=int32[3,4]";
    const Case c = Case::parse(line);
    const auto gate = static_cast<std::size_t>(c.contract().find_field("gate"));
    EXPECT_FALSE(is_cut(c.pattern(gate), cuts_of(c)));
    EXPECT_EQ(part(line, {{1, 3}, {1, 4}}).find("gate=bf16[5,8]") != std::string::npos, true);
}

// A cache in pages has no batch, and key heads where keys in one piece have them.
TEST(PartsOfCalls, CutWhatIsPickedWhereBothOfItsShapesHaveTheAxis) {
    const std::string pages =
        "attention q=bf16[2,3,4,8] k=bf16[5,16,2,8] v=bf16[5,16,2,8] kv_lengths=int32[2] "
        "block_table=int32[2,4] out=bf16[2,3,4,8]";
    EXPECT_THAT(cuts(pages), ElementsAre("batch=2", "kv_heads=2"));
    EXPECT_EQ(part(pages, {{1, 2}, {0, 1}}),
              "attention q=bf16[1,3,2,8] k=bf16[5,16,1,8] v=bf16[5,16,1,8] kv_lengths=int32[1] "
              "block_table=int32[1,4] out=bf16[1,3,2,8]");
    const std::string packed =
        "attention q=bf16[1,9,4,8] k=bf16[1,9,2,8] v=bf16[1,9,2,8] kv_lengths=int32[3] "
        "cu_seqlens_q=int32[4] out=bf16[1,9,4,8]";
    EXPECT_THAT(cuts(packed), ElementsAre("kv_heads=2"));
    EXPECT_EQ(part(packed, {{1, 2}}),
              "attention q=bf16[1,9,2,8] k=bf16[1,9,1,8] v=bf16[1,9,1,8] kv_lengths=int32[3] "
              "cu_seqlens_q=int32[4] out=bf16[1,9,2,8]");
}

TEST(PartsOfCalls, AreDenseWhateverTheCallIs) {
    EXPECT_EQ(part("held x=bf16[4,8]{20,2}+3", {{1, 3}}), "held x=bf16[2,8] out=bf16[2,8]");
}

// Fields that round its columns or its rows; the first one has neither.
struct CutUp {
    static constexpr std::string_view kName = "cut_up";
    Tensor maybe{}, weight{}, x{}, groups{}, padded{}, wide{}, tiles{}, out{};

    static const Contract& contract() {
        using Op = CutUp;
        static const Contract c =
            Describe<Op>(std::string(kName), "out = 0")
                .in("maybe", &Op::maybe, "... dim", kFloat, "as x")
                .optional()
                .in("weight", &Op::weight, "dim", kFloat, "a vector")
                .in("x", &Op::x, "... dim", kFloat, "the rows")
                .in("groups", &Op::groups, "ceil(dim/4)", kFloat, "one for four columns")
                .optional()
                .in("padded", &Op::padded, "pad(...,8)", kFloat, "rows, and more")
                .optional()
                .in("wide", &Op::wide, "pad(dim,6)", kFloat, "columns, and more")
                .optional()
                .in("tiles", &Op::tiles, "ceil(dim/4)*2", kFloat, "two for four columns")
                .optional()
                .out("out", &Op::out, "... dim", kFloat, "the result")
                .independent({"...", "dim"})
                .tolerance("none")
                .source("nothing");
        return c;
    }
};
void cut_nothing(const CutUp&, Oracle&) {}
const RegisterReference<CutUp> kCutUp{cut_nothing};

TEST(PartsOfCalls, AreCutInStepsOfWhatAFieldRounds) {
    EXPECT_THAT(cuts("cut_up weight=fp32[8] x=fp32[3,4,8]"), ElementsAre("...=3", "...=4", "dim=8"));
    EXPECT_THAT(cuts("cut_up maybe=fp32[3,4,8] weight=fp32[8] x=fp32[3,4,8]"),
                ElementsAre("...=3", "...=4", "dim=8"));
    EXPECT_EQ(part("cut_up weight=fp32[8] x=fp32[3,4,8]", {{0, 1}, {1, 3}, {2, 8}}),
              "cut_up weight=fp32[6] x=fp32[1,2,6] out=fp32[1,2,6]");
    const std::string grouped = "cut_up weight=fp32[10] x=fp32[3,1,10] groups=fp32[3]";
    EXPECT_THAT(cuts(grouped), ElementsAre("...=3", "dim=3")) << "four columns together";
    EXPECT_EQ(part(grouped, {{0, 1}, {1, 2}}),
              "cut_up weight=fp32[4] x=fp32[1,1,4] groups=fp32[1] out=fp32[1,1,4]");
    EXPECT_EQ(part(grouped, {{0, 1}, {1, 3}}),
              "cut_up weight=fp32[6] x=fp32[1,1,6] groups=fp32[2] out=fp32[1,1,6]")
        << "the last four are two";
    const std::string both = "cut_up weight=fp32[13] x=fp32[13] groups=fp32[4] wide=fp32[18]";
    EXPECT_THAT(cuts(both), ElementsAre("dim=2")) << "twelve, which is four and six as well";
    EXPECT_EQ(part(both, {{0, 1}}),
              "cut_up weight=fp32[12] x=fp32[12] groups=fp32[3] wide=fp32[12] out=fp32[12]");
    EXPECT_EQ(part(both, {{1, 2}}),
              "cut_up weight=fp32[1] x=fp32[1] groups=fp32[1] wide=fp32[6] out=fp32[1]");
}

TEST(PartsOfCalls, AreCutAlongNoAxisThatNoStepSuits) {
    EXPECT_THAT(cuts("cut_up weight=fp32[8] x=fp32[3,4,8] padded=fp32[16]"), ElementsAre("dim=8"));
    EXPECT_THAT(cuts("cut_up weight=fp32[8] x=fp32[3,4,8] tiles=fp32[4]"), ElementsAre("...=3", "...=4"));
    EXPECT_THAT(cuts("cut_up weight=fp32[3] x=fp32[2,3] groups=fp32[1]"), ElementsAre("...=2"))
        << "all columns are one step";
}

// The rows of a product that are picked by their groups' ends are its own, those of groups of their own are parts.
TEST(PartsOfCalls, OfGroupsOfRows) {
    const std::string of = "b=fp8_e4m3[3,300,256] a_group_scale=fp32", end = " b_block_scale=fp32[3,3,2]";
    EXPECT_THAT(cuts("grouped_gemm a=fp8_e4m3[3,9,256] " + of + "[3,9,2]" + end + " out=bf16[3,9,300]"),
                ElementsAre("groups=3", "n=3"));
    const std::string ends =
        "grouped_gemm a=fp8_e4m3[20,256] " + of + "[20,2]" + end + " group_ends=int32[3] out=bf16[20,300]";
    EXPECT_THAT(cuts(ends), ElementsAre("n=3"));
    EXPECT_EQ(part(ends, {{2, 3}}),
              "grouped_gemm a=fp8_e4m3[20,256] b=fp8_e4m3[3,44,256] group_ends=int32[3] "
              "a_group_scale=fp32[20,2] b_block_scale=fp32[3,1,2] out=bf16[20,44]");
}

TEST(Contexts, LeaveOutAllButTheImplementationThatIsNamed) {
    const Case c = Case::parse("held x=fp32[1,4]");
    const auto taken = [&](const std::string& name) {
        Context context = context_for(c.op(), kCpu, name);
        std::string by;
        c.with_call(kCpu, [&](const void* call) { by = taken_by(c, call, context); });
        return by;
    };
    EXPECT_EQ(taken(""), "doing so");
    EXPECT_EQ(taken("doing"), "doing so");
    EXPECT_THAT(taken("reference"), testing::StartsWith("reference "));
    EXPECT_EQ(taken("other"), "none");
    EXPECT_TRUE(repeats_bits(c, kCpu, "doing so"));
    EXPECT_TRUE(repeats_bits(c, kCuda, "doing so"));
}

TEST(Contexts, OfTheEmulatorHaveAStreamOfTheirOwn) {
    const OpEntry& op = *find_op("held");
    EXPECT_NE(context_for(op, kEmulator, "").stream().handle, Stream{}.handle);
    EXPECT_EQ(context_for(op, kCpu, "").stream().handle, Stream{}.handle);
}

}  // namespace
}  // namespace weft::test
