// gemm through cuBLASLt: problem descriptions, plans, launches.
//
// cuBLASLt thinks in columns. A row-major [rows, columns] matrix of stride s is, to it, a column-major
// [columns, rows] one of leading dimension s, so it is asked for outᵀ = b · aᵀ: its A is weft's b, its B is
// weft's a, its m is n. A contiguous k ("TN") makes its A transposed; a contiguous n ("NN") does not.
#if WEFT_HAS_CUBLASLT
#include "ops/gemm/cublaslt.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ops/gemm/cublaslt_plan.h"
#include "ops/gemm/problem.h"
#include "weft/memory.h"
#include "weft/op.h"
#include "weft/plans.h"

namespace weft::gemm {
namespace {

constexpr float kOne = 1, kZero = 0;
// A smaller product (16 million operations) lasts no longer than a launch, whatever the algorithm: not worth
// timing.
constexpr double kTimedFlops = 1 << 24;
constexpr int kFavourites = 8;            // of the heuristic: the first that rounds once is taken
constexpr std::size_t kMostPlans = 4096;  // of a context; then it forgets them all

cudaDataType_t cuda_type(DType dtype) {
    switch (dtype) {
        case DType::bf16: return CUDA_R_16BF;
        case DType::fp16: return CUDA_R_16F;
        case DType::fp8_e4m3: return CUDA_R_8F_E4M3;
        case DType::fp8_e5m2: return CUDA_R_8F_E5M2;
        default: return CUDA_R_32F;
    }
}

// Of its C operand. Without a residual C is not read, but it has a type all the same.
DType residual_type(const Gemm& op) { return op.residual ? op.residual.dtype : op.out.dtype; }

// The largest power of two up to 256 that divides an address.
std::int64_t alignment(const Tensor& t) {
    const auto address = reinterpret_cast<std::uintptr_t>(t.data) | 256;
    return t ? static_cast<std::int64_t>(address & (~address + 1)) : 0;
}

// Everything that a plan depends on but addresses.
using Key = std::array<std::int64_t, 20>;
Key key_of(const Gemm& op, const Problem& p) {
    const auto type = [](const Tensor& t) { return t ? static_cast<std::int64_t>(t.dtype) : -1; };
    return {p.m,
            p.n,
            p.k,
            p.a_stride,
            p.b.row,
            p.b.step,
            p.residual_stride,
            p.out_stride,
            type(op.a),
            type(op.b),
            type(op.out),
            type(op.residual),
            type(op.bias),
            alignment(op.a),
            alignment(op.b),
            alignment(op.out),
            alignment(op.residual),
            alignment(op.bias),
            static_cast<std::int64_t>(op.activation),
            (op.fast_accumulation ? 1 : 0) + (op.a_scale ? 2 : 0) + (op.b_scale ? 4 : 0)};
}

// What a context keeps.
struct Slot {
    CublasLtHandle handle;
    std::string section;  // of plans that were timed
    std::map<Key, Plan> plans;
    const Key* last_key = nullptr;  // asked for last, and most likely next
    Plan* last = nullptr;
};

template <class T>
void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    const CublasLt& lt = CublasLt::get();
    lt.require(lt.MatmulDescSetAttribute(plan.desc.get(), attribute, &value, sizeof(value)),
               "describing a product");
}

// The addresses that a description holds; the others go with the call.
void set_pointers(const Plan& plan, const Gemm& op) {
    if (op.bias) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(op.bias.data));
    if (op.b_scale)
        set(plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(op.b_scale.data));
    if (op.a_scale)
        set(plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(op.a_scale.data));
}

CublasLtLayout layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    const CublasLt& lt = CublasLt::get();
    cublasLtMatrixLayout_t made = nullptr;
    lt.require(lt.MatrixLayoutCreate(&made, cuda_type(dtype), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), stride),
               "describing a matrix");
    return CublasLtLayout(made);
}

cublasLtEpilogue_t epilogue_of(const Gemm& op) {
    if (op.activation == Gemm::Activation::gelu_tanh)
        return op.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return op.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void describe(Plan& plan, const Gemm& op, const Problem& p) {
    const CublasLt& lt = CublasLt::get();
    cublasLtMatmulDesc_t desc = nullptr;
    lt.require(lt.MatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    plan.desc.reset(desc);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, is_tn(p.b) ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(op));
    if (op.bias) {
        set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(cuda_type(op.bias.dtype)));
    }
    if (is_fp8(op.a.dtype)) {
        set(plan, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(op.fast_accumulation));
    }
    set_pointers(plan, op);
    plan.a = is_tn(p.b) ? layout(op.b.dtype, p.k, p.n, p.b.row) : layout(op.b.dtype, p.n, p.k, p.b.step);
    plan.b = layout(op.a.dtype, p.k, p.m, p.a_stride);
    plan.c = layout(residual_type(op), p.n, p.m, op.residual ? p.residual_stride : p.out_stride);
    plan.d = layout(op.out.dtype, p.n, p.m, p.out_stride);
}

// ---- choices that were timed ----

// They hold for this library on this card, and for all m up to the next of 1, 2, 3, 4, 6, 8, 12, 16, ...: what is
// fastest for one is about the fastest for the others, and the library says whether it runs at all.
std::string section_of(const Context& context) {
    return fmt::format("cublaslt {} on {}", CublasLt::get().GetVersion(), context.info().name);
}

std::int64_t bucket(std::int64_t m) {
    std::int64_t power = 1;
    while (power < m) power *= 2;
    return m <= power / 4 * 3 ? power / 4 * 3 : power;
}

std::string text_of(const Key& key) {
    std::string text = fmt::format("m<={}", bucket(key[0]));
    for (std::size_t i = 1; i < key.size(); ++i) text += fmt::format(" {}", key[i]);
    return text;
}

std::string text_of(const cublasLtMatmulAlgo_t& algo) {
    std::string text;
    for (const std::uint64_t word : algo.data) text += fmt::format("{}{:x}", text.empty() ? "" : " ", word);
    return text;
}

// Takes over a choice by its text; false where the library, or the room for its workspace, does not allow it.
bool take(const Slot& slot, Plan& plan, const std::string& text, std::size_t workspace) {
    std::istringstream words(text);
    cublasLtMatmulAlgo_t algo{};
    for (std::uint64_t& word : algo.data) words >> std::hex >> word;
    cublasLtMatmulHeuristicResult_t result{};
    if (!words || CublasLt::get().MatmulAlgoCheck(slot.handle.get(), plan.desc.get(), plan.a.get(),
                                                  plan.b.get(), plan.c.get(), plan.d.get(), &algo,
                                                  &result) != CUBLAS_STATUS_SUCCESS) {
        return false;
    }
    if (result.workspaceSize > workspace) return false;
    plan.algo = algo;
    plan.workspace = result.workspaceSize;
    plan.how = "timed";
    return true;
}

void take(Plan& plan, const cublasLtMatmulHeuristicResult_t& result, const char* how) {
    plan.algo = result.algo;
    plan.workspace = result.workspaceSize;
    plan.how = how;
}

// ---- plans ----

// Inside a capture nothing may be allocated or timed, so the workspace may not be there yet.
void choose(Slot& slot, Plan& plan, const Key& key, const Gemm& op, Context& context, bool capturing) {
    describe(plan, op, problem(op));
    plan.settled = !capturing;
    plan.reason = nullptr;
    const std::size_t workspace = capturing ? 0 : kWorkspace;
    const std::string problem_text = text_of(key);
    const std::string* known = context.plans().find(slot.section, problem_text);
    if (known != nullptr && take(slot, plan, *known, workspace)) return;
    if (!capturing && context.tuning() && Gemm::contract().work(&op).flops >= kTimedFlops) {
        if (const auto best = fastest(slot.handle.get(), plan, op, context)) {
            context.plans().set(slot.section, problem_text, text_of(best->algo));
            return take(plan, *best, "timed");
        }
    } else if (const auto found = ask(slot.handle.get(), plan, op, workspace, kFavourites); !found.empty()) {
        return take(plan, found.front(), "the heuristic's first");
    }
    plan.reason = "its heuristic knows no algorithm for this product that rounds once";
}

Slot& slot_of(Context& context) {
    Slot& slot = context.slot<Slot>();
    if (slot.handle == nullptr) {
        const CublasLt& lt = CublasLt::get();
        cublasLtHandle_t made = nullptr;
        lt.require(lt.Create(&made), "starting the library");
        slot.handle.reset(made);
        slot.section = section_of(context);
    }
    return slot;
}

Plan& plan_for(Slot& slot, const Gemm& op, Context& context) {
    const Key key = key_of(op, problem(op));
    if (slot.last == nullptr || *slot.last_key != key) {
        if (slot.plans.size() >= kMostPlans) slot.plans.clear();
        const auto it = slot.plans.try_emplace(key).first;
        slot.last_key = &it->first;
        slot.last = &it->second;
    }
    Plan& plan = *slot.last;
    if (plan.settled) return plan;
    const bool capturing = is_capturing(context.device(), context.stream());
    if (plan.desc == nullptr || !capturing) choose(slot, plan, key, op, context, capturing);
    return plan;
}

}  // namespace

cublasStatus_t multiply(cublasLtHandle_t handle, const Plan& plan, const cublasLtMatmulAlgo_t& algo,
                        const Pointers& at, void* workspace, std::size_t bytes, Stream stream) {
    return CublasLt::get().Matmul(
        handle, plan.desc.get(), &kOne, at.b, plan.a.get(), at.a, plan.b.get(),
        at.residual != nullptr ? &kOne : &kZero, at.residual != nullptr ? at.residual : at.out, plan.c.get(),
        at.out, plan.d.get(), &algo, workspace, bytes, static_cast<cudaStream_t>(stream.handle));
}

bool Algorithm::rounds_once(const Gemm& op) const {
    if (number == kRoundsOnce) return true;
    if (op.activation != Gemm::Activation::none) return false;
    if (!op.bias && !op.residual) return true;
    return parts <= 1 && (!op.bias || !op.residual || op.out.dtype == DType::fp32);
}

Algorithm describe(const cublasLtMatmulAlgo_t& algo) {
    const CublasLt& lt = CublasLt::get();
    const auto read = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
        std::int32_t value = 0;
        std::size_t written = 0;
        lt.require(lt.MatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof(value), &written),
                   "describing an algorithm");
        return value;
    };
    return {.number = read(CUBLASLT_ALGO_CONFIG_ID), .parts = read(CUBLASLT_ALGO_CONFIG_SPLITK_NUM)};
}

std::vector<cublasLtMatmulHeuristicResult_t> ask(cublasLtHandle_t handle, const Plan& plan, const Gemm& op,
                                                 std::size_t workspace, int count) {
    const CublasLt& lt = CublasLt::get();
    cublasLtMatmulPreference_t made = nullptr;
    lt.require(lt.MatmulPreferenceCreate(&made), "describing a preference");
    const CublasLtPreference preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
        lt.require(lt.MatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)),
                   "describing a preference");
    };
    const auto bytes_of = [](const Tensor& t) { return static_cast<std::uint32_t>(alignment(t)); };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes_of(op.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes_of(op.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes_of(op.residual ? op.residual : op.out));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes_of(op.out));
    std::vector<cublasLtMatmulHeuristicResult_t> results;
    // Where nothing that it would share along k will do, it is asked for what it would not share.
    for (const cublasLtReductionScheme_t scheme :
         {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_NONE}) {
        prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(scheme));
        results.resize(static_cast<std::size_t>(count));
        int found = 0;
        const cublasStatus_t status =
            lt.MatmulAlgoGetHeuristic(handle, plan.desc.get(), plan.a.get(), plan.b.get(), plan.c.get(),
                                      plan.d.get(), made, count, results.data(), &found);
        results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(found) : 0);
        if (results.empty()) break;
        std::erase_if(results, [&](const auto& r) {
            return r.state != CUBLAS_STATUS_SUCCESS || !describe(r.algo).rounds_once(op);
        });
        if (!results.empty()) break;
    }
    return results;
}

const char* cublaslt_decline(const Gemm& op, const DeviceInfo& device) {
    if (const char* why = cublaslt_limits(op, device)) return why;
    return CublasLt::find() != nullptr ? nullptr
                                       : "libcublasLt was not found: set WEFT_CUBLASLT to its file or folder";
}

std::string cublaslt_config(const Gemm& op, const DeviceInfo&) { return is_tn(problem(op).b) ? "tn" : "nn"; }

Readiness cublaslt_prepare(const Gemm& op, Context& context) {
    const Plan& plan = plan_for(slot_of(context), op, context);
    return {plan.reason, plan.how};
}

void cublaslt_launch(const Gemm& op, Context& context) {
    Slot& slot = slot_of(context);
    Plan& plan = plan_for(slot, op, context);
    if (plan.reason != nullptr) throw Refused();
    set_pointers(plan, op);
    // Always the same size, so that scratch never moves under a captured graph for this op's sake.
    void* workspace = plan.workspace > 0 ? context.scratch(kWorkspace) : nullptr;
    const Pointers at{op.a.data, op.b.data, op.residual ? op.residual.data : nullptr, op.out.data};
    const cublasStatus_t status =
        multiply(slot.handle.get(), plan, plan.algo, at, workspace, plan.workspace, context.stream());
    // The heuristic accepts some problems that the product then refuses; nothing was queued.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
        plan.reason = "it refused the product that its heuristic had offered";
        throw Refused();
    }
    CublasLt::get().require(status, "multiplying");
}

}  // namespace weft::gemm
#endif
