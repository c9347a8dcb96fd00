// Checks that follow from a description: what passes, and the message of each breach.
#include <gmock/gmock.h>

#include <cmath>
#include <utility>

#include "tests/core/probe.h"

namespace weft::test {
namespace {

using testing::HasSubstr;
using testing::StrEq;

struct Contracts : testing::Test {
    Contracts() {
        op.x = at(0, DType::bf16, {2, 8});
        op.out = at(1, DType::bf16, {2, 8});
    }
    Tensor at(int place, DType dtype, std::initializer_list<std::int64_t> shape) {
        return Tensor(memory + place * 256, dtype, shape);
    }
    Tensor view(int place, DType dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> stride) {
        return Tensor(memory + place * 256, dtype, std::span<const std::int64_t>(shape),
                      std::span<const std::int64_t>(stride));
    }
    std::string message() const {
        try {
            Probe::contract().check(&op);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
            EXPECT_EQ(e.op(), "probe");
            return e.what();
        }
        return "accepted";
    }

    alignas(256) unsigned char memory[4096] = {};
    Probe op{};
};

struct Related {
    static constexpr std::string_view kName = "related";
    Tensor x{}, out{}, scale{}, token_scale{}, extra{};
    float gain = 1;

    static Describe<Related> describe() {
        return std::move(Describe<Related>(std::string(kName), "out = x")
                             .in("x", &Related::x, "dim", kFloat, "in")
                             .out("out", &Related::out, "dim", kFloat | kFp8, "out")
                             .in("scale", &Related::scale, "1", DType::fp32, "given")
                             .optional()
                             .scale_of("out")
                             .in("token_scale", &Related::token_scale, "1", DType::fp32, "found")
                             .optional()
                             .excludes("scale")
                             .in("extra", &Related::extra, "dim", kFloat, "beside a scale, as x")
                             .optional()
                             .like("x")
                             .needs("token_scale"));
    }
    std::string message() const {
        static const Contract contract = describe();
        try {
            contract.check(this);
            return "accepted";
        } catch (const Error& e) {
            return e.what();
        }
    }
};

TEST_F(Contracts, HoldFieldsToTheirRelations) {
    Related op{.x = at(0, DType::bf16, {8}), .out = at(1, DType::fp8_e4m3, {8})};
    EXPECT_EQ(op.message(), "accepted");
    op.scale = at(2, DType::fp32, {1});
    EXPECT_EQ(op.message(), "accepted");
    op.token_scale = at(3, DType::fp32, {1});
    EXPECT_EQ(op.message(), "related.token_scale: expected scale or token_scale, got both");
    op.token_scale = {};
    op.extra = at(4, DType::bf16, {8});
    EXPECT_EQ(op.message(), "related.extra: expected token_scale beside it, got none");
    op.token_scale = std::exchange(op.scale, {});
    EXPECT_EQ(op.message(), "accepted");
    op.extra.dtype = DType::fp16;
    EXPECT_EQ(op.message(), "related.extra: expected x's dtype bf16, got fp16");
    op.extra = {};
    op.scale = std::exchange(op.token_scale, {});
    op.out = at(1, DType::fp16, {8});
    EXPECT_EQ(op.message(), "related.scale: expected none, because out is fp16, which has no scale");
}

// A field whose dtype goes by another's, and says the size of an axis.
struct Grouped {
    static constexpr std::string_view kName = "grouped";
    Tensor out{}, scale{};

    static Describe<Grouped> describe() {
        return std::move(Describe<Grouped>(std::string(kName), "out")
                             .out("out", &Grouped::out, "rows dim", kFloat | kFp8 | DType::fp4_e2m1, "out")
                             .out("scale", &Grouped::scale, "rows ceil(dim/group)",
                                  {DType::fp32, DType::fp8_e4m3}, "of groups")
                             .optional()
                             .sizes_by_dtype("group", {{DType::fp32, 4}, {DType::fp8_e4m3, 2}})
                             .dtype_beside("out", {{DType::fp8_e4m3, {DType::fp32, DType::fp8_e4m3}},
                                                   {DType::fp4_e2m1, {DType::fp8_e4m3}}}));
    }
    std::string message() const {
        static const Contract contract = describe();
        try {
            contract.check(this);
            return "accepted";
        } catch (const Error& e) {
            return e.what();
        }
    }
};

TEST_F(Contracts, ADtypeMayGoByAnothersAndSizeAnAxis) {
    Grouped op{.out = at(0, DType::fp8_e4m3, {2, 6}), .scale = at(1, DType::fp32, {2, 2})};
    EXPECT_EQ(op.message(), "accepted");
    op.scale = at(1, DType::fp8_e4m3, {2, 3});
    EXPECT_EQ(op.message(), "accepted");
    op.scale = at(1, DType::fp8_e4m3, {2, 2});
    EXPECT_EQ(op.message(), "grouped.scale: expected [rows=2, ceil(dim/group)=3], got [2, 2]");
    op.out = at(0, DType::fp4_e2m1, {2, 6});
    op.scale = at(1, DType::fp32, {2, 2});
    EXPECT_EQ(op.message(), "grouped.scale: expected dtype fp8_e4m3 beside out of fp4_e2m1, got fp32");
    op.out = at(0, DType::bf16, {2, 6});
    EXPECT_EQ(op.message(), "grouped.scale: expected none beside out of bf16, got fp32");
    op.scale = {};
    EXPECT_EQ(op.message(), "accepted");
    const auto misnamed = [] {
        return Contract(Grouped::describe().sizes_by_dtype("gruop", {{DType::fp32, 4}}));
    };
    EXPECT_THROW(misnamed(), Error);
}

// Of four-bit elements a row begins at a byte.
TEST_F(Contracts, ElementsThatShareBytesComeInPairs) {
    Grouped op{.out = at(0, DType::fp4_e2m1, {2, 5})};
    const std::string pairs =
        "grouped.out: two elements share a byte: the last axis and the strides of the others "
        "must be even, got ";
    EXPECT_EQ(op.message(), pairs + "fp4_e2m1[2,5]");
    op.out = view(0, DType::fp4_e2m1, {2, 6}, {7, 1});
    EXPECT_EQ(op.message(), pairs + "fp4_e2m1[2,6]{7,1}");
    op.out = view(0, DType::fp4_e2m1, {2, 5}, {6, 1});  // whose rows begin at bytes, and end inside of one
    EXPECT_EQ(op.message(), pairs + "fp4_e2m1[2,5]{6,1}");
    op.out = view(0, DType::fp4_e2m1, {1, 6}, {7, 1});
    EXPECT_EQ(op.message(), "accepted");
}

std::string refusal(Describe<Related> description) {
    try {
        const Contract contract = description;
        return "accepted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::internal);
        return e.what();
    }
}

TEST_F(Contracts, RefuseADescriptionThatContradictsItself) {
    EXPECT_EQ(refusal(Related::describe()), "accepted");
    EXPECT_EQ(refusal(Related::describe().excludes("nothing")),
              "related.extra: its description names nothing, which is no field");
    EXPECT_EQ(refusal(Related::describe().in_place_of("y")),
              "related.extra: its description is in place of y, which is no field");
    EXPECT_EQ(refusal(Related::describe().in("x", &Related::x, "dim", kFloat, "again")),
              "related.x: its description comes twice");
    EXPECT_EQ(refusal(Related::describe().sizes("dmi", {1})),
              "related.dmi: its description gives sizes to an axis that no field has");
    EXPECT_THAT(refusal(Related::describe().option("gain", &Related::gain, 0, 1, "a factor", {0, 2})),
                StrEq("related.gain: its description has the value 2 outside [0, 1]"));
    EXPECT_THROW(Related::describe().in("y", &Related::x, "..., dim", kFloat, "a comma"), Error);
}

TEST_F(Contracts, AcceptTheLeast) { EXPECT_THAT(message(), StrEq("accepted")); }

TEST_F(Contracts, ReturnTheSizesOfAllAxes) {
    const AxisSizes sizes = Probe::contract().check(&op);
    EXPECT_EQ(sizes.size[static_cast<std::size_t>(Probe::contract().axes().find("dim"))], 8);
}

TEST_F(Contracts, RequireWhatIsNotOptional) {
    op.out = {};
    EXPECT_THAT(message(), StrEq("probe.out: is required: the result [... dim]"));
    op.x = {};
    EXPECT_THAT(message(), StrEq("probe.x: is required: the rows [... dim]"));
}

TEST_F(Contracts, NameTheDtypes) {
    op.x.dtype = DType::int32;
    EXPECT_THAT(message(), StrEq("probe.x: expected dtype fp32, bf16, fp16, got int32"));
}

TEST_F(Contracts, NameTheShape) {
    op.weight = at(2, DType::fp32, {7});
    EXPECT_THAT(message(), StrEq("probe.weight: expected [dim=8], got [7]"));
    op.weight = at(2, DType::fp32, {1, 8});
    EXPECT_THAT(message(), StrEq("probe.weight: expected [dim=8], got [1, 8]"));
}

TEST_F(Contracts, RejectRanksAndSizesThatNoTensorHas) {
    op.x.rank = 7;
    EXPECT_THAT(message(), StrEq("probe.x: rank 7 exceeds 6"));
    op.x = at(0, DType::bf16, {2, 8});
    op.x.shape[0] = -2;
    EXPECT_THAT(message(), StrEq("probe.x: axis 0 has negative size -2"));
}

TEST_F(Contracts, AskNothingOfAnEmptyTensorsStrides) {
    op.x = view(0, DType::bf16, {2, 0}, {0, 7});
    op.out = view(1, DType::bf16, {2, 0}, {0, -1});
    EXPECT_THAT(message(), StrEq("accepted"));
}

TEST_F(Contracts, RejectStridesThatAFieldDoesNotTake) {
    op.x = view(0, DType::bf16, {2, 8}, {16, 2});
    EXPECT_THAT(message(), StrEq("probe.x: the last axis must be contiguous, got bf16[2,8]{16,2}"));
    op.x = view(0, DType::bf16, {2, 8}, {-8, 1});
    EXPECT_THAT(message(), StrEq("probe.x: axis 0 has stride -8: strides must not be negative"));
    op.x = at(0, DType::bf16, {2, 8});
    op.out = view(1, DType::bf16, {2, 8}, {0, 1});
    EXPECT_THAT(message(), StrEq("probe.out: axis 0 has stride 0: an output can't be broadcast"));
    op.x = at(0, DType::bf16, {2, 2, 8});
    op.out = view(1, DType::bf16, {2, 2, 8}, {24, 8, 1});
    EXPECT_THAT(
        message(),
        StrEq("probe.out: the leading axes must fold into rows of one stride, got bf16[2,2,8]{24,8,1}"));
    op.out = at(1, DType::bf16, {2, 2, 8});
    op.sums = view(2, DType::fp32, {2, 2}, {4, 1});
    EXPECT_THAT(message(), StrEq("probe.sums: must be dense (row-major, no gaps), got fp32[2,2]{4,1}"));
}

TEST_F(Contracts, AllowBroadcastInputs) {
    op.y = view(2, DType::bf16, {2, 8}, {0, 1});
    EXPECT_THAT(message(), StrEq("accepted"));
}

TEST_F(Contracts, RejectNullAndMisalignedPointers) {
    op.x.data = nullptr;
    EXPECT_THAT(message(), StrEq("probe.x: is a null pointer"));
    op.x.data = memory + 1;
    EXPECT_THAT(message(), StrEq("probe.x: must be aligned to its element of 2 bytes"));
    op.x = Tensor(nullptr, DType::bf16, {0, 8});
    op.out = Tensor(nullptr, DType::bf16, {0, 8});
    EXPECT_THAT(message(), StrEq("accepted"));  // nothing is there to be pointed at
}

TEST_F(Contracts, KeepAllFieldsOnOneDevice) {
    op.out.device = {DeviceType::cuda, 1};
    EXPECT_THAT(message(), StrEq("probe.out: expected device cpu:0 as x, got cuda:1"));
}

TEST_F(Contracts, KeepOptionsInTheirRange) {
    op.factor = 9;
    EXPECT_THAT(message(), StrEq("probe.factor: expected a value in [-8, 8], got 9"));
    op.factor = NAN;
    EXPECT_THAT(message(), HasSubstr("probe.factor: expected a value in [-8, 8], got nan"));
    op.factor = 1;
    op.mode = static_cast<Probe::Mode>(2);
    EXPECT_THAT(message(), HasSubstr("probe.mode: expected one of plain, doubled"));
}

TEST_F(Contracts, LetOptionsFixAxes) {
    op.groups = 3;
    op.packed = at(2, DType::fp4_e2m1, {2, 40});
    EXPECT_THAT(message(), StrEq("accepted"));
    op.packed = at(2, DType::fp4_e2m1, {2, 32});
    EXPECT_THAT(message(), StrEq("probe.packed: expected [rows=2, (groups+2)*dim=40], got [2, 32]"));
}

TEST_F(Contracts, ApplyTheOpsOwnRules) {
    op.y = at(2, DType::fp16, {2, 8});
    EXPECT_THAT(message(), StrEq("probe.y: expected dtype bf16 as x"));
}

TEST_F(Contracts, AllowOutputsOverInputsOnlyAsTheVerySameView) {
    op.out = op.x;
    EXPECT_THAT(message(), StrEq("accepted"));
    op.out = at(0, DType::fp32, {2, 8});
    EXPECT_THAT(message(),
                StrEq("probe.out: overlaps x without being the very same view of elements as wide"));
    op.out = op.x;
    op.out.data = memory + 16;
    EXPECT_THAT(message(),
                StrEq("probe.out: overlaps x without being the very same view of elements as wide"));
    op.out = at(1, DType::bf16, {2, 8});
    op.weight = at(1, DType::bf16, {8});
    EXPECT_THAT(message(), StrEq("probe.out: must not overlap weight"));
    op.weight = {};
    op.sums = at(1, DType::fp32, {2});
    EXPECT_THAT(message(), StrEq("probe.out: must not overlap sums"));
}

TEST_F(Contracts, HoldEqualViewsToEqualStrides) {
    op.x = view(0, DType::bf16, {2, 8}, {16, 1});
    op.out = at(0, DType::bf16, {2, 8});
    EXPECT_THAT(message(),
                StrEq("probe.out: overlaps x without being the very same view of elements as wide"));
    op.out = op.x;
    EXPECT_THAT(message(), StrEq("accepted"));
    op.x.shape[0] = op.out.shape[0] = 1;
    op.out.stride[0] = 99;  // of no meaning where the axis has one index
    EXPECT_THAT(message(), StrEq("accepted"));
}

TEST_F(Contracts, AllowOutputsBetweenTheElementsOfOthers) {
    op.x = view(0, DType::bf16, {4, 8}, {16, 1});
    op.out = view(0, DType::bf16, {4, 8}, {16, 1});
    op.out.data = memory + 16;  // the other half of each row
    EXPECT_THAT(message(), StrEq("accepted"));
    op.y = view(0, DType::bf16, {4, 8}, {16, 1});
    op.y.data = memory + 14;
    EXPECT_THAT(message(), StrEq("probe.out: must not overlap y"));
}

TEST_F(Contracts, RejectOutputsThatOverlapThemselves) {
    op.x = at(0, DType::bf16, {4, 8});
    for (const auto& [shape, stride] :
         std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
             {{4, 8}, {4, 1}}, {{4, 8}, {7, 1}}, {{4, 8}, {1, 1}}}) {
        op.out = view(1, DType::bf16, shape, stride);
        EXPECT_THAT(message(),
                    StrEq("probe.out: its own elements must not overlap, got " + to_string(op.out)));
    }
    op.out = view(1, DType::bf16, {4, 8}, {8, 1});
    EXPECT_THAT(message(), StrEq("accepted"));
    op.x = view(0, DType::bf16, {4, 8}, {4, 1});  // an input may
    EXPECT_THAT(message(), StrEq("accepted"));
}

TEST_F(Contracts, RejectStridesAndSizesThatOverflow) {
    op.x = view(0, DType::bf16, {2, 8}, {INT64_MAX / 2, 1});
    EXPECT_THAT(message(), StrEq("probe.x: is too large: [2, 8] with the strides [4611686018427387903, 1]"));
    op.x = view(0, DType::bf16, {2, 8}, {INT64_MIN, 1});
    EXPECT_THAT(message(), HasSubstr("probe.x: "));
    op.x = at(0, DType::bf16, {2, 8});
    op.x.shape[0] = op.x.shape[1] = INT64_MAX;
    EXPECT_THAT(message(), HasSubstr("probe.x: is too large"));
    EXPECT_THROW(at(0, DType::bf16, {INT64_MAX, INT64_MAX}), Error);
    op.x = view(0, DType::bf16, {1, 8}, {INT64_MAX, 1});  // never multiplied
    op.out = at(1, DType::bf16, {1, 8});
    EXPECT_THAT(message(), StrEq("accepted"));
}

TEST_F(Contracts, SayTheirRulesInWords) {
    const Contract c = Related::describe();
    const auto rules = [&](const char* field) {
        return c.rules(c.fields()[static_cast<std::size_t>(c.find_field(field))]);
    };
    using testing::ElementsAre;
    EXPECT_THAT(rules("scale"),
                ElementsAre("only where out is stored in fewer bits", "not beside token_scale"));
    EXPECT_THAT(rules("token_scale"), ElementsAre("not beside scale"));
    EXPECT_THAT(rules("extra"), ElementsAre("the dtype of x", "only beside token_scale"));
}

TEST_F(Contracts, StateLeastWork) {
    const Work work = Probe::contract().work(&op);
    EXPECT_EQ(work.bytes, 64);
    op.state = at(2, DType::fp32, {1});
    EXPECT_EQ(Probe::contract().work(&op).bytes, 72);  // in-out: read and written
}

TEST_F(Contracts, KnowAnEmptyCall) {
    EXPECT_FALSE(Probe::contract().is_empty(&op));
    op.x = op.out = Tensor(nullptr, DType::bf16, {0, 8});
    EXPECT_TRUE(Probe::contract().is_empty(&op));
}

TEST_F(Contracts, ReadAndWriteOptionsByDescription) {
    const Contract& c = Probe::contract();
    for (const Option& o : c.options()) {
        Contract::set(&op, o, 1);
        EXPECT_EQ(Contract::get(&op, o), 1) << o.name;
    }
    EXPECT_TRUE(op.negate);
    EXPECT_EQ(op.mode, Probe::Mode::doubled);
    EXPECT_EQ(op.groups, 1);
    EXPECT_EQ(c.find_option("factor"), 0);
    EXPECT_EQ(c.find_option("x"), -1);
    EXPECT_EQ(c.find_field("x"), 0);
}

}  // namespace
}  // namespace weft::test
