// What each op refuses, in its words: all that one change of a legal call leads to, or a change beside another value of an
// option. A rule often names several fields, and a test of it one; a field that a rule has lost is found here. What is
// refused stands in refusals/OP.txt; WEFT_RECORD_REFUSALS=1 test_ops --gtest_filter='*Refusals*' writes it anew.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "verify/guided.h"
#include "verify/workload.h"

namespace weft {
namespace {

const std::string kFolder = WEFT_SOURCE_DIR "/tests/ops/";

// Legal calls of all kinds: the corpus and the table of dispatch.
std::vector<Case> legal_calls(const OpEntry& op) {
    const std::string& name = op.contract().name();
    std::vector<Case> calls;
    if (const std::string corpus = kFolder + "corpus/" + name + ".txt"; std::filesystem::exists(corpus)) {
        for (const Trial& trial : read_corpus(corpus)) calls.push_back(trial.c);
    }
    for (const auto& row : read_csv(kFolder + "../../ops/" + name + "/dispatch.csv")) {
        if (row[3].starts_with(name)) calls.push_back(Case::parse(row[3]));  // else it has none
    }
    return calls;
}

// Without numbers and without what was given, which tell calls apart, not rules.
std::string rule_of(const std::string& message) {
    std::string rule = message.substr(0, message.find('\n'));
    rule = rule.substr(0, rule.find(", got"));
    std::string text;
    for (const char c : rule) {
        const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
        if (!digit || text.empty() || text.back() != '#') text += digit ? '#' : c;
    }
    return text;
}

void note(Case c, std::set<std::string>& refused) {
    try {
        c.infer();
        c.check();
    } catch (const Error& e) {
        refused.insert(rule_of(e.what()));
    }
}

// Without a field, and those that are there beside it alone.
Case without(Case c, std::size_t field) {
    c.tensors[field].present = false;
    for (const Relation& relation : c.contract().relations()) {
        const auto beside = static_cast<std::size_t>(relation.field);
        if (relation.kind == Relation::Kind::needs && static_cast<std::size_t>(relation.other) == field &&
            c.tensors[beside].present)
            c = without(std::move(c), beside);
    }
    return c;
}

// Each field absent, alone or with all that needs it, or there in another dtype.
void change_fields(const Case& c, std::set<std::string>& refused) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const Field& field = c.contract().fields()[i];
        Case other = c;
        other.tensors[i].alias = -1;
        if (other.tensors[i].present) {
            note(without(other, i), refused);
            other.tensors[i].present = false;
            note(other, refused);
        } else {
            other.tensors[i] = {};  // the shape follows, where it can
        }
        other.tensors[i].present = true;
        for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
            other.tensors[i].dtype = static_cast<DType>(dtype);
            if (field.dtypes.contains(other.tensors[i].dtype)) note(other, refused);
        }
    }
}

std::set<std::string> refusals(const OpEntry& op) {
    std::set<std::string> refused;
    for (const Case& c : legal_calls(op)) {
        change_fields(c, refused);
        for (std::size_t i = 0; i < c.options.size(); ++i) {
            const Option& option = op.contract().options()[i];
            std::vector<double> values = {option.low, option.high};
            for (std::size_t choice = 0; choice < option.choices.size(); ++choice)
                values.push_back(static_cast<double>(choice));
            for (const double value : values) {
                Case other = c;
                other.options[i] = value;
                note(other, refused);
                change_fields(other, refused);
            }
        }
    }
    return refused;
}

class Refusals : public testing::TestWithParam<const OpEntry*> {};

TEST_P(Refusals, AreThoseThatWereRecorded) {
    const std::string path = kFolder + "refusals/" + GetParam()->contract().name() + ".txt";
    const std::set<std::string> refused = refusals(*GetParam());
    EXPECT_FALSE(refused.empty());
    if (std::getenv("WEFT_RECORD_REFUSALS") != nullptr) {
        std::ofstream file(path);
        for (const std::string& rule : refused) file << rule << "\n";
        return;
    }
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " is not there: WEFT_RECORD_REFUSALS=1 writes it";
    for (std::string rule; std::getline(file, rule);)
        EXPECT_TRUE(refused.contains(rule)) << "nothing is refused by this rule any more: " << rule;
}

INSTANTIATE_TEST_SUITE_P(Ops, Refusals, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
