// How the rows of a tensor are dealt to threads: a pure function of sizes and device, for all row kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "kit/group_scope.h"
#include "kit/l2_keep.h"
#include "weft/device_info.h"

namespace weft {

// Elements of a mixed kernel's vector.
inline constexpr int kOctet = 8;

// Whether a thread that holds so many vectors has registers for little else: what else it needs of a row is asked for
// late, and is made again rather than kept.
constexpr bool fills_registers(int vectors) { return vectors == 8; }

struct RowPlan {
    int width = 1;        // elements of a vector: 16 bytes of them, or kOctet in a mixed kernel
    int vectors = 1;      // vectors of a row that a thread holds at a time
    int lanes = 32;       // threads of a block that share a row: a power of two up to 32, or the whole block
    int rows = 1;         // rows of a block
    int cluster = 1;      // blocks that share a row
    bool keep = false;    // L2 keeps the rows that are read after all else
    bool uniform = true;  // of a uniform kernel
    bool beside = false;  // RowForm::beside
    int piece = kOctet;   // RowProblem::piece, of RowForm::any
    bool any = false;     // RowForm::any
    bool bare = false;    // RowForm::bare
    bool wide = false;    // RowForm::wide
    bool modulated = false;  // RowForm::modulated

    int threads() const { return lanes * rows; }
    std::int64_t blocks(std::int64_t all_rows) const { return (all_rows + rows - 1) / rows * cluster; }
    friend bool operator==(const RowPlan&, const RowPlan&) = default;
};

inline std::string to_string(const RowPlan& plan) {
    std::string text = "lanes=" + std::to_string(plan.lanes) + " vectors=" + std::to_string(plan.vectors) +
                       "x" + std::to_string(plan.width) + " rows=" + std::to_string(plan.rows) +
                       " cluster=" + std::to_string(plan.cluster);
    if (plan.piece < kOctet) text += " pieces=" + std::to_string(plan.piece);
    if (plan.keep) text += " l2=input";
    if (!plan.uniform) return text + " mixed";
    if (plan.modulated) text += " modulated";
    if (plan.wide) return text + " wide";
    return text + (plan.any ? " any" : "") + (plan.beside && !plan.bare ? " beside" : "");
}

// What a row kernel knows of its operands when it is compiled. A uniform one, which is what production calls, has
// whole vectors, reads nothing that is not stored as the row is, and stores out so too or as fp8 e4m3. Which of the two,
// and whether there is a residual, it knows as well: a branch that is not taken still costs instructions and registers.
// Where eight vectors a thread wait for the blocks of a cluster it costs nothing, and the kernel decides where it runs. So
// do kernels of a row with operands beside it that are stored in dtypes of their own, or whose rows an index picks, or with
// a modulation beside a weight, or with out in another dtype: a checkpoint's weights in fp32, a diffusion model's modulation.
// Kernels of any rows ask for the dtypes of x and residual there as well, and take rows that are no whole vectors. The mixed
// kernels, of which an op has two, decide all else there: rows of 2^31 and more, those that no registers hold, codes with
// scales of groups where the row is not stored alike.
struct RowForm {
    bool uniform = false;
    bool bias = true;  // is there; of eight vectors: may be, like the next two
    bool residual = true;
    bool fp8 = true;
    bool ragged = false;  // of a mixed one: some row is not whole octets, or begins where no vector may
    bool beside = false;  // of a uniform one: operands beside the row have dtypes and places of their own
    bool any =
        false;  // of one beside: the row has no dtype of its own, and may be moved in pieces (kit/any_row.cuh)
    bool bare =
        false;  // of any rows: there is no gate, no tanh and no code of less than 16 bits, and rows have strides
    bool wide = false;  // of a uniform one of 16 bits: weight and bias are of fp32; a residual may be there
    bool modulated =
        false;  // of a uniform one of 16 bits: modulations follow the weight, as many as there are outputs, or an
                // index picks rows beside x; all are stored as the row is, or as fp32 if `wide`
    friend constexpr bool operator==(const RowForm&, const RowForm&) = default;
};

// The uniform kernels that an op is compiled for: without a bias, with one, with one to fp8, with a residual, to fp8; with
// operands beside the row that are not stored as it is; with a weight of fp32; of any rows.
struct RowKernels {
    bool plain = true, biased = true, biased_fp8 = true, residual = true, fp8 = true, beside = false,
         wide = false;
    bool modulated = false;  // kernels of modulations beside rows of 16 bits
    bool any = false;        // kernels of rows of any dtypes and lengths, too
    bool wide_outs = false;  // out may be of another dtype of 16 or 32 bits than the row
};

// How far the threads of a row reach, as far as a kernel's vectors tell: plans give a cluster to no uniform row of one or
// two vectors a thread.
constexpr GroupScope row_scope(int vectors, const RowForm& form) {
    return form.uniform && !form.any && vectors <= 2 ? GroupScope::local : GroupScope::any;
}

// A form as a kernel's template argument: a type, for nvcc cannot name kernels by the values of structs.
template <bool kUniform, bool kBias, bool kResidual = true, bool kFp8 = true, bool kRagged = false,
          bool kBeside = false, bool kWide = false, bool kAny = false, bool kBare = false,
          bool kModulated = false>
struct FormOf {
    static constexpr RowForm kForm{.uniform = kUniform,
                                   .bias = kBias,
                                   .residual = kResidual,
                                   .fp8 = kFp8,
                                   .ragged = kRagged,
                                   .beside = kBeside,
                                   .any = kAny,
                                   .bare = kBare,
                                   .wide = kWide,
                                   .modulated = kModulated};
};
// Weights of fp32 beside rows of 16 bits are what most checkpoints have.
template <bool kBias>
using WideForm = FormOf<true, kBias, true, false, false, false, true>;
template <bool kWide>
using ModulatedForm = FormOf<true, true, true, false, false, false, kWide, false, false, true>;
using BesideForm = FormOf<true, true, true, true, false, true>;
template <bool kBare>
using AnyForm = FormOf<true, true, true, true, false, true, false, true, kBare>;
template <bool kRagged>
using MixedForm = FormOf<false, true, true, true, kRagged>;

// What a plan is made for: rows of dim elements. `piece`: how many elements may be moved
// at once of every row: an octet, four, two or one.
struct RowProblem {
    std::int64_t rows = 0, dim = 0;
    int element_bytes = 2;
    int piece = kOctet;
    RowForm form{};
    int group_lanes = 1;  // lanes of a warp that have a group of columns, which share a scale
    int outputs = 1;

    bool whole() const { return piece == kOctet; }
    friend bool operator==(const RowProblem&, const RowProblem&) = default;
};

// The form of the kernel that a plan runs in.
inline RowForm row_form(const RowPlan& plan, const RowProblem& problem) {
    if (!plan.uniform) return {.ragged = !problem.whole()};
    RowForm form = problem.form;
    if (fills_registers(plan.vectors)) form.residual = form.fp8 = true;
    return form;
}

namespace detail {

// The closed list of uniform row kernels, for each element type of the row and each form that the op has. What each entry
// is for:
//
//   1, 2, 4 vectors  short rows, or few: the fewer vectors, the sooner the last is there
//   8                long rows of a cluster: fewer blocks meet for a row; not beside weights of fp32
//
// Kernels for operands beside the row hold these too, so they have no 8, and no 4 of fp32 rows.
//
// Below: the numbers of vectors, the most threads of a block, and about the registers that a thread takes.
inline constexpr int kRowStatic = 2048;  // bytes of static shared memory, at most
inline constexpr int kMixedVectors = 2;  // that a thread of a mixed kernel holds at a time
inline constexpr int kRowVectors[] = {1, 2, 4, 8};
constexpr bool beside_allows(int vectors, int element_bytes) { return vectors * element_bytes <= 8; }
// Kernels of any rows: the octets of fp32 that a thread holds, and the pieces that they are moved in. Those that have more
// than a weight and a bias beside a row are four times as long, and so fewer.
constexpr bool any_allows(int vectors, bool bare) { return vectors <= (bare ? 4 : 2); }
constexpr int any_piece(int piece, bool bare) { return piece == 4 && !bare ? 2 : piece; }
// Threads side by side in a row of pieces smaller than an octet: 32 bytes at least, no more than that where rows may be short.
constexpr int row_squad(int piece, int vectors) { return vectors == 4 ? 32 : piece == 4 ? 8 : 16; }
// How many outputs such a kernel makes of a row: of a second there must be room beside what both are made of.
constexpr int beside_outputs(int vectors) { return vectors <= 2 ? 2 : 1; }
constexpr int row_threads(int vectors, const RowForm& form) {
    if (!form.uniform) return 512;  // which leaves 128
    if (form.bare)
        return vectors == 1 ? 1024 : vectors == 2 ? 768 : 512;  // which leave 64, 80 and 128 registers
    if (form.any) return vectors == 1 ? 768 : 640;              // which leave 80 and 96
    if (form.beside) return vectors == 1 ? 1024 : vectors == 2 ? 768 : 640;  // which leave 64, 80 and 96
    if (form.modulated) return vectors == 4 ? 768 : 1024;                    // which leave 80 and 64
    if (form.wide) return vectors == 4 ? 640 : 1024;                         // which leave 48 and 64
    if (fills_registers(vectors)) return form.bias ? 640 : 768;  // these leave 96 and 80 registers
    if (form.residual && vectors == 2) return 640;               // which leaves 48
    return form.bias && vectors == 4 ? 512 : 1024;
}
constexpr int row_registers(int vectors, const RowForm& form) {
    if (!form.uniform) return 128;
    if (form.bare) return vectors == 1 ? 64 : vectors == 2 ? 80 : 128;
    if (form.any) return vectors == 1 ? 80 : 96;
    if (form.beside) return vectors == 1 ? 64 : vectors == 2 ? 80 : 96;
    if (form.modulated) return vectors == 4 ? 80 : 64;
    if (form.wide) return vectors == 4 ? 48 : 64;
    if (fills_registers(vectors)) return 65536 / row_threads(vectors, form) / 8 * 8;
    const bool plain = !form.bias && !form.residual && !form.fp8;
    return vectors == 1 || (vectors == 2 && plain) ? 32 : vectors == 2 ? 48 : 64;
}

// The fewest lanes that hold `vectors` vectors: a power of two in a warp, whole warps above.
constexpr int row_lanes(std::int64_t vectors) {
    if (vectors > 32) return static_cast<int>(std::min<std::int64_t>((vectors + 31) / 32 * 32, 1 << 20));
    int lanes = 1;
    while (lanes < vectors) lanes *= 2;
    return lanes;
}

inline int resident_blocks(const RowPlan& plan, const RowProblem& problem, const DeviceInfo& device) {
    const int most = device.arch == 86 || device.arch == 89 || device.arch == 120 ? 1536 : 2048;
    const int registers = row_registers(plan.vectors, row_form(plan, problem));
    const int blocks = std::min({32, most / plan.threads(), 65536 / (registers * plan.threads())});
    return std::min(blocks, device.shared_per_sm / (kRowStatic + 1024));
}

// What the vectors of a thread cost, in KiB in flight: fewer than four make more threads meet for a row, more leave no
// room for the weight. But a row that fills less than two thirds of two warps is best alone in one, which waits for none,
// unless there is much beside it.
inline double home_burden(const RowPlan& plan, const RowProblem& problem) {
    const bool alone = plan.lanes == 32 &&
                       problem.dim * 3 <= std::int64_t{plan.lanes} * plan.vectors * plan.width * 2 &&
                       !problem.form.bias && !problem.form.residual && !problem.form.fp8;
    switch (plan.vectors) {
        case 1: return 6;
        case 2: return 1.5;
        case 8: return alone ? -1 : 0.25;
        default: return 0;
    }
}

// How often a row is halved between the blocks of a cluster.
inline double halvings(const RowPlan& plan) {
    return std::bit_width(static_cast<unsigned>(plan.cluster)) - 1;
}

// The share of the time that the blocks of a cluster wait for each other: it grows with each halving, and less where
// a thread has more to load in between.
inline double exchange_cost(const RowPlan& plan) {
    const double split = halvings(plan);
    if (plan.any || plan.wide || plan.modulated) return 0.1 * split;
    return (fills_registers(plan.vectors) ? 0.006 : 0.045) * split * split;
}

// About how many instructions a warp issues to begin and end its rows, and for each octet that its threads hold.
struct RowInstructions {
    int row, octet;
};
constexpr RowInstructions row_instructions(const RowForm& form) {
    if (form.bare) return {55, 130};
    if (form.any) return {650, 275};
    if (form.beside) return {300, 400};
    if (form.modulated) return {330, 150};
    if (form.wide) return {115, 160};
    return {90, 105};
}

// About how long few rows take beside what every launch does, in microseconds: what a warp waits for, which is mostly its own
// instructions, and then the threads and blocks that it meets; and what all of them keep the card busy with, its schedulers,
// its launches of blocks, its memory. The numbers are fitted to 75 calls of norms and softmax, each timed with all plans
// side by side on an H200: of these and of as many others the plans that are chosen were the fastest or near them.
inline double row_us(const RowPlan& plan, const RowProblem& problem, const DeviceInfo& device) {
    constexpr double kIssuedAUs = 4 * 1755, kBlocksAUs = 1000,
                     kBytesAUs = 1.9e6;  // the first: of an SM's schedulers
    const auto [row, octet] = row_instructions(row_form(plan, problem));
    const double octets = plan.vectors * plan.width / static_cast<double>(kOctet);
    // Small pieces take instructions of their own, which squads of whole warps (row_squad) halve.
    const double pieces = (kOctet / plan.piece - 1) * (plan.vectors == 4 ? 13 : 26);
    const bool meet = plan.lanes > 32, split = plan.cluster > 1;
    const double instructions = row + octets * (octet + pieces) + (meet ? 30 : 0);
    const auto blocks = static_cast<double>(plan.blocks(problem.rows));
    const double waits =
        1.25e-3 * instructions + (meet ? plan.lanes / 1024.0 : 0) + (split ? 0.2 + 0.06 * halvings(plan) : 0);
    const double bytes = static_cast<double>(problem.rows * problem.dim) * problem.element_bytes;
    const double busy = std::max({blocks * plan.threads() / 32 * instructions / (device.sms * kIssuedAUs),
                                  blocks * (split ? 2 : 1) / kBlocksAUs, bytes / kBytesAUs});
    return std::max(waits, busy) + 0.75 * std::min(waits, busy);
}

// Larger is better. Few rows are judged by their time (row_us). Many by the bytes that an SM keeps in flight (more than
// 32 KiB gain nothing) and by how many blocks take turns there, so that one loads while another reduces or stores. Where the
// blocks of short rows are less than twice as many as have room at once, the card is half empty while the last of them run.
inline double row_score(const RowPlan& plan, const RowProblem& problem, const DeviceInfo& device) {
    const int resident = resident_blocks(plan, problem, device);
    if (resident == 0) return -1;
    const double row_bytes = static_cast<double>(problem.dim) * problem.element_bytes;
    if (static_cast<double>(problem.rows) * row_bytes <= 65536.0 * device.sms)
        return 1e6 - row_us(plan, problem, device);
    static constexpr double kOverlap[] = {0, 0.6, 0.93, 0.96, 1};
    const double in_flight = row_bytes * plan.rows / plan.cluster * resident / 1024;
    const double waves =
        static_cast<double>(plan.blocks(problem.rows)) / (static_cast<double>(device.sms) * resident);
    const double busy = plan.lanes > 32 || waves >= 2 ? 1 : waves / std::ceil(waves);
    return 10 +
           std::min(in_flight, 32.0) * kOverlap[std::min(resident, 4)] * (1 - exchange_cost(plan)) * busy -
           home_burden(plan, problem);
}

// The uniform plan that gives `vectors` to each thread and `cluster` blocks to a row; lanes = 0 where there is none.
inline RowPlan row_candidate(const RowProblem& problem, int vectors, int cluster) {
    RowPlan plan{.width = problem.form.beside ? kOctet : 16 / problem.element_bytes,
                 .vectors = vectors,
                 .cluster = cluster};
    const RowForm form = row_form(plan, problem);
    plan.beside = form.beside;
    plan.any = form.any;
    plan.bare = form.bare;
    plan.wide = form.wide;
    plan.modulated = form.modulated;
    const int piece = form.any ? any_piece(problem.piece, form.bare) : kOctet;
    plan.piece = piece;
    const std::int64_t all = std::max<std::int64_t>((problem.dim + plan.width - 1) / plan.width, 1);
    const std::int64_t apart = std::int64_t{vectors} * cluster;
    // Lanes of a row: 64 bytes, where the row has them.
    const std::int64_t side_by_side =
        piece < kOctet ? row_squad(piece, vectors) : std::min<std::int64_t>(all, 4);
    plan.lanes =
        row_lanes(std::max({(all + apart - 1) / apart, side_by_side, std::int64_t{problem.group_lanes}}));
    if (all <= std::int64_t{plan.lanes} * vectors / 2 && vectors > 1) return {.lanes = 0};
    if ((form.wide || form.modulated) && fills_registers(vectors)) return {.lanes = 0};
    if (form.any && !any_allows(vectors, form.bare)) return {.lanes = 0};
    if (form.beside && !form.any && !beside_allows(vectors, problem.element_bytes)) return {.lanes = 0};
    if (form.beside && !form.bare && problem.outputs > beside_outputs(vectors)) return {.lanes = 0};
    if (plan.lanes > row_threads(vectors, form) || (cluster > 1 && plan.lanes < 128)) return {.lanes = 0};
    if (cluster > 1 && row_scope(vectors, form) == GroupScope::local) return {.lanes = 0};
    if (plan.lanes <= 32) plan.rows = 128 / plan.lanes;
    return plan;
}

// The plan of a mixed kernel. Of many rows a thread holds as many octets as it can, which spread the cost of beginning a
// row; of few it has one, and waits least. Blocks stay small, so that several take turns on an SM: longer rows are shared
// by those of a cluster. What these do not hold either is taken in chunks, by the largest blocks.
inline RowPlan mixed_plan(const RowProblem& problem, int most_blocks, const DeviceInfo& device) {
    constexpr std::int64_t kMost = row_threads(0, {}), kInTurns = 256, kSideBySide = 2;
    const std::int64_t octets =
        std::max<std::int64_t>((problem.dim + (problem.whole() ? 0 : kOctet - 1) + kOctet - 1) / kOctet, 1);
    const bool few = problem.rows * octets * 16 <= 65536 * std::int64_t{device.sms};
    RowPlan plan{.width = kOctet, .uniform = false};
    const std::int64_t most_lanes = few ? kMost : kInTurns;
    const auto each = [](std::int64_t all, std::int64_t held) { return (all + held - 1) / held; };
    while (plan.cluster < most_blocks && each(octets, kMixedVectors * plan.cluster) > most_lanes)
        plan.cluster *= 2;
    const std::int64_t shared = each(octets, few ? plan.cluster : kMixedVectors * plan.cluster);
    plan.lanes = row_lanes(std::min(
        std::max({shared, std::min(octets, kSideBySide), std::int64_t{problem.group_lanes}}), kMost));
    if (plan.lanes <= 32) plan.rows = 128 / plan.lanes;
    plan.vectors = static_cast<int>(
        std::min<std::int64_t>(each(octets, std::int64_t{plan.lanes} * plan.cluster), kMixedVectors));
    return plan;
}

}  // namespace detail

inline RowPlan plan_rows(const RowProblem& problem, const DeviceInfo& device) {
    const int most_blocks = device.arch >= 90 ? std::max(device.max_cluster, 1) : 1;
    RowPlan best{.uniform = false};
    double best_score = -1;
    const auto consider = [&](int vectors, int cluster) {
        const RowPlan plan = detail::row_candidate(problem, vectors, cluster);
        const double score = plan.lanes > 0 ? detail::row_score(plan, problem, device) : -1;
        if (score > best_score) best = plan, best_score = score;
    };
    for (int cluster = 1; problem.form.uniform && cluster <= most_blocks; cluster *= 2) {
        for (const int held : detail::kRowVectors) consider(held, cluster);
    }
    if (!best.uniform) best = detail::mixed_plan(problem, most_blocks, device);
    best.keep = l2_keeps_input(problem.rows * problem.dim * problem.element_bytes, device);
    return best;
}

// Plans made before, for callers that launch the same shapes over and over: making one takes about a
// microsecond.
class RowPlans {
   public:
    const RowPlan& find(const RowProblem& problem, const DeviceInfo& device) {
        const Key key{problem,
                      device.arch,
                      device.sms,
                      device.max_cluster,
                      device.shared_per_block,
                      device.shared_per_sm,
                      device.l2_bytes};
        const auto mixed = static_cast<std::uint64_t>(problem.rows * 31 + problem.dim) * 0x9e3779b97f4a7c15u;
        Entry& entry = entries_[mixed >> 60];
        if (entry.key != key) entry = {key, plan_rows(problem, device)};
        return entry.plan;
    }

   private:
    struct Key {
        RowProblem problem;
        int arch = 0, sms = 0, max_cluster = 0, shared_per_block = 0, shared_per_sm = 0;
        long l2_bytes = 0;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct Entry {
        Key key;
        RowPlan plan;
    };
    Entry entries_[16];
};

}  // namespace weft
