// What a check knows of axes that no field has by itself, and of devices of one kind.
#include <gmock/gmock.h>

#include <utility>

#include "tests/core/probe.h"

namespace weft::test {
namespace {

// The first field's axis is a sum, whose parts later fields have; the one of them may be named by nothing that is there.
struct Parted {
    static constexpr std::string_view kName = "parted";
    Tensor x{}, head{}, tail{}, rest{};

    static Describe<Parted> describe() {
        return std::move(Describe<Parted>(std::string(kName), "rest = x without head and tail")
                             .in("x", &Parted::x, "rows a+b", kFloat, "all")
                             .in("head", &Parted::head, "rows a", kFloat, "its beginning")
                             .in("tail", &Parted::tail, "rows b", kFloat, "its end")
                             .optional()
                             .out("rest", &Parted::rest, "rows b", kFloat, "what is left")
                             .optional());
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

struct ContractAxes : testing::Test {
    Tensor at(int place, std::initializer_list<std::int64_t> shape) {
        return Tensor(memory + place * 256, DType::bf16, shape);
    }
    alignas(256) unsigned char memory[1024] = {};
};

TEST_F(ContractAxes, ASumIsHeldToPartsThatLaterFieldsName) {
    Parted op{.x = at(0, {2, 9}), .head = at(1, {2, 4}), .tail = at(2, {2, 4}), .rest = at(3, {2, 4})};
    EXPECT_EQ(op.message(), "parted.x: expected [rows=2, a+b=8], got [2, 9]");
    op.x = at(0, {2, 8});
    EXPECT_EQ(op.message(), "accepted");
}

TEST_F(ContractAxes, APartThatOnlyAnInputNamesIsEmptyWithoutItButAnOutputLeavesItOpen) {
    Parted op{.x = at(0, {2, 8}), .head = at(1, {2, 6})};
    EXPECT_EQ(op.message(), "accepted");
    op.rest = at(3, {2, 3});
    EXPECT_EQ(op.message(), "parted.x: expected [rows=2, a+b=9], got [2, 8]");
}

// Lengths are those of rows, or, where there are offsets, of groups.
TEST_F(ContractAxes, AnAxisOfAPickedShapeIsEmptyWhereNothingPicks) {
    static const Contract contract = Describe<Parted>("grouped", "rest = x by groups")
                                         .in("x", &Parted::x, "rows dim", kFloat, "all")
                                         .in("lengths", &Parted::head, "rows", kFloat, "of rows")
                                         .optional()
                                         .picked_by("offsets", "groups")
                                         .in("offsets", &Parted::tail, "groups+1", kFloat, "of groups")
                                         .optional();
    const auto groups = [&](const Parted& op) {
        return contract.check(&op).size[static_cast<std::size_t>(contract.axes().find("groups"))];
    };
    Parted op{.x = at(0, {2, 9})};
    EXPECT_EQ(groups(op), 0);
    op.head = at(1, {2});
    EXPECT_EQ(groups(op), 0);
    op.tail = at(2, {4});
    op.head = {};
    EXPECT_EQ(groups(op), 3);
    op.head = at(1, {3});
    EXPECT_EQ(groups(op), 3);
    op.head = at(1, {2});
    EXPECT_THROW(groups(op), Error);
}

// An expression is of the axes that the field has here.
TEST_F(ContractAxes, APickedShapeMayHaveExpressions) {
    static const Contract contract =
        Describe<Parted>("scaled", "x by groups")
            .in("x", &Parted::x, "rows dim", kFloat, "all")
            .picked_by("offsets", "groups room dim")
            .in("scales", &Parted::head, "rows ceil(dim/4)", kFloat, "of columns")
            .picked_by("offsets", "groups room ceil(dim/4)")
            .in("offsets", &Parted::tail, "groups", kFloat, "of groups")
            .optional();
    Parted op{.x = at(0, {3, 9}), .head = at(1, {3, 3})};
    EXPECT_NO_THROW(contract.check(&op));
    op.x = at(0, {2, 3, 9});
    op.head = at(1, {2, 3, 3});
    op.tail = at(2, {2});
    EXPECT_NO_THROW(contract.check(&op));
    op.head = at(1, {2, 3, 2});
    EXPECT_THROW(contract.check(&op), Error);
}

// No output leaves it open here.
TEST_F(ContractAxes, ASumIsItsOnlyPartWhereTheOtherIsNot) {
    static const Contract contract = Describe<Parted>("joined", "x = head beside tail")
                                         .in("head", &Parted::head, "rows a", kFloat, "its beginning")
                                         .in("tail", &Parted::tail, "rows b", kFloat, "its end")
                                         .optional()
                                         .out("x", &Parted::x, "rows a+b", kFloat, "all");
    Parted op{.x = at(0, {2, 9}), .head = at(1, {2, 6})};
    EXPECT_THROW(contract.check(&op), Error);
    op.x = at(0, {2, 6});
    EXPECT_NO_THROW(contract.check(&op));
}

TEST_F(ContractAxes, OnlyWhatIsOneElementMayBeAScalar) {
    Probe op{.x = at(0, {2, 8}), .out = at(1, {2, 8})};
    EXPECT_NO_THROW(Probe::contract().check(&op));
    op.weight = at(2, {8});
    op.weight.rank = 0;
    EXPECT_THROW(Probe::contract().check(&op), Error);
    op.weight = {};
    op.state = Tensor(memory + 768, DType::fp32, {1});
    op.state.rank = 0;
    EXPECT_NO_THROW(Probe::contract().check(&op));
}

TEST_F(ContractAxes, DevicesOfOneKindAreTwo) {
    Parted op{.x = at(0, {2, 8}), .head = at(1, {2, 8}), .rest = at(3, {2, 0})};
    op.x.device = op.head.device = op.rest.device = {DeviceType::cuda, 0};
    EXPECT_EQ(op.message(), "accepted");
    op.head.device.index = 1;
    EXPECT_EQ(op.message(), "parted.head: expected device cuda:0 as x, got cuda:1");
}

TEST_F(ContractAxes, ADeviceIsComparedWithThatOfTheFirstFieldThatIsThere) {
    const Contract contract = Describe<Parted>("parted", "rest = x or head")
                                  .in("x", &Parted::x, "rows a", kFloat, "not there")
                                  .optional()
                                  .in("head", &Parted::head, "rows a", kFloat, "the rows")
                                  .out("rest", &Parted::rest, "rows a", kFloat, "the same");
    Parted op{.head = at(1, {2, 8}), .rest = at(3, {2, 8})};
    op.rest.device = {DeviceType::cuda, 1};
    try {
        contract.check(&op);
        FAIL() << "accepted";
    } catch (const Error& e) {
        EXPECT_STREQ(e.what(), "parted.rest: expected device cpu:0 as head, got cuda:1");
    }
}

}  // namespace
}  // namespace weft::test
