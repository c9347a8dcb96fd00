// What the reference says of a call's operands, and whether a result agrees.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "verify/instance.h"
#include "verify/part.h"

namespace weft {

struct Outcome {
    bool passed = true;
    std::string why;             // the first thing wrong: field, element, got, expected; empty where passed
    std::string implementation;  // that ran
    double worst = 0;      // largest distance from the reference, in units of what is allowed (1 = the limit)
    std::size_t bits = 0;  // a hash of all output elements' bits, where passed
};

struct ReferenceLimits {
    std::size_t threads = 0;  // 0: as many as the machine runs at once
    double operations = 4e9;  // of each thread: a few seconds
    double elements = 1.5e8;  // of all operands that are compared: what fits in memory beside the rest
    bool hardware = true;     // is what results come from (Oracle::hardware)
};

// The reference of a whole call, or, of a long one, of parts of it: the contract says along which axes a call
// falls into calls of its own; the first, the last and random ones of those are evaluated and compared in
// full. Where even a part is long, the reference leaves out most of its rows (Oracle::wants).
class Reference {
   public:
    explicit Reference(const Instance& operands, const ReferenceLimits& limits = {}, std::uint64_t seed = 0);
    ~Reference();
    Reference(Reference&&) noexcept;
    Reference& operator=(Reference&&) noexcept;

    // Every element that was evaluated lies in the reference's interval, and no other memory changed than
    // that of outputs. `result` ran over the same contents.
    Outcome compare(const Instance& result);
    // Of the result that was compared last: what is wrong with memory that is not the op's to write, or nothing.
    std::string compare_rest(const Instance& result) const;

    // What was evaluated: "12 parts of 16 rows ...". Empty where it is every element of every output.
    const std::string& sampled() const { return sampled_; }

   private:
    struct Piece;
    std::vector<Part> choose_parts(const ReferenceLimits& limits, std::uint64_t seed);
    Outcome compare_piece(const Piece& piece, const Instance& result) const;
    Outcome compare_memory(const Instance& result) const;

    Case case_;
    std::shared_ptr<const Instance::Contents> operands_;
    std::vector<Cut> cuts_;
    std::vector<std::unique_ptr<Piece>> pieces_;
    std::string sampled_;
    std::int64_t one_in_ = 1;
    std::size_t threads_ = 1;
    // What a result's memory holds; kept, for gigabytes take longer to allocate than to fill.
    Instance::Contents now_;
};

}  // namespace weft
