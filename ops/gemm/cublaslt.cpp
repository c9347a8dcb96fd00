// gemm through cuBLASLt: problem descriptions, plans, launches.
//
// cuBLASLt thinks in columns. A row-major [rows, columns] matrix of stride s is, to it, a column-major
// [columns, rows] one of leading dimension s, so it is asked for outᵀ = b · aᵀ: its A is weft's b, its B is
// weft's a, its m is n. A contiguous k ("TN") makes its A transposed; a contiguous n ("NN") does not.
#if WEFT_HAS_CUBLASLT
#include "ops/gemm/cublaslt.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/gemm/cublaslt_library.h"
#include "ops/gemm/problem.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/memory.h"

namespace weft::gemm {
namespace {

constexpr std::size_t kWorkspace = std::size_t{64} << 20;
constexpr float kOne = 1, kZero = 0;
// A smaller product (16 million operations) lasts no longer than a launch, whatever the algorithm: not worth
// timing.
constexpr double kTimedFlops = 1 << 24;

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

struct Plan {
    CublasLtDesc desc;
    CublasLtLayout a, b, c, d;  // a and b as cuBLASLt names them
    cublasLtMatmulAlgo_t algo{};
    std::size_t workspace = 0;
    bool usable = false, timed = false;
};

struct Slot {
    CublasLtHandle handle;
    std::map<Key, Plan> plans;
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

void describe(Plan& plan, const Gemm& op, const Problem& p) {
    const CublasLt& lt = CublasLt::get();
    cublasLtMatmulDesc_t desc = nullptr;
    lt.require(lt.MatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    plan.desc.reset(desc);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, is_tn(p.b) ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, op.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
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

// What the heuristic offers within a limit of workspace, its favourite first. Partial sums stay in fp32: a
// split that reduces in out's dtype would round twice. Where there is something to add, nothing is split at
// all: the reduction rounds to out's dtype before it adds a residual (seen on an H200).
std::vector<cublasLtMatmulHeuristicResult_t> ask(const Slot& slot, const Plan& plan, const Gemm& op,
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
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(op.residual || op.bias ? CUBLASLT_REDUCTION_SCHEME_NONE
                                                             : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes_of(op.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes_of(op.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes_of(op.residual ? op.residual : op.out));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes_of(op.out));
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
    int found = 0;
    const cublasStatus_t status =
        lt.MatmulAlgoGetHeuristic(slot.handle.get(), plan.desc.get(), plan.a.get(), plan.b.get(),
                                  plan.c.get(), plan.d.get(), made, count, results.data(), &found);
    results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(found) : 0);
    std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
    return results;
}

// The addresses of one product.
struct Pointers {
    const void *a, *b, *residual;  // weft's a and b
    void* out;
};

cublasStatus_t multiply(const Slot& slot, const Plan& plan, const cublasLtMatmulAlgo_t& algo,
                        const Pointers& at, void* workspace, std::size_t bytes, Stream stream) {
    return CublasLt::get().Matmul(
        slot.handle.get(), plan.desc.get(), &kOne, at.b, plan.a.get(), at.a, plan.b.get(),
        at.residual != nullptr ? &kOne : &kZero, at.residual != nullptr ? at.residual : at.out, plan.c.get(),
        at.out, plan.d.get(), &algo, workspace, bytes, static_cast<cudaStream_t>(stream.handle));
}

// Times candidates as they will run in a model: in a graph, one after another, with weights that are not in
// L2 (copies of b in turn, twice the L2 in all). It works on a stream of its own, because a context's stream
// may be the default one, which can't be captured, and never writes over a residual.
class Timer {
   public:
    Timer(const Slot& slot, const Plan& plan, const Gemm& op, Context& context)
        : slot_(slot),
          plan_(plan),
          stream_(context.device()),
          timing_(context.device(), stream_.get()),
          workspace_(context.scratch(kWorkspace)),
          at_{op.a.data, op.b.data, op.residual.data, op.out.data} {
        synchronize(context.device(), context.stream());
        const auto b_bytes = static_cast<std::size_t>(bytes(op.b.dtype, op.b.span()));
        const std::size_t pitch = (b_bytes + 255) / 256 * 256;  // a copy is aligned as well as b, or better
        const std::size_t wanted =
            2 * static_cast<std::size_t>(std::max<long>(context.info().l2_bytes, 1 << 20)) / pitch;
        copies_ = Buffer(context.device(), std::min<std::size_t>(wanted, 64) * pitch);
        weights_.push_back(op.b.data);
        for (std::size_t at = 0; at < copies_.size(); at += pitch) {
            weights_.push_back(static_cast<char*>(copies_.data()) + at);
            copy_bytes(static_cast<char*>(copies_.data()) + at, op.b.device, op.b.data, op.b.device, b_bytes);
        }
        if (op.residual && op.residual.data == op.out.data) {
            out_ = Buffer(context.device(), static_cast<std::size_t>(bytes(op.out.dtype, op.out.span())));
            at_.out = out_.data();
        }
    }

    // Microseconds a product; infinity where the candidate fails.
    double time(const cublasLtMatmulHeuristicResult_t& candidate) {
        try {
            launch(candidate, 1);  // loads the kernel
            const double once = time_us(timing_, [&] { launch(candidate, 1); });
            const int count = std::clamp(static_cast<int>(400 / std::max(once, 1.0)), 2, 48);
            const Graph graph(timing_, [&] { launch(candidate, count); });
            graph.replay();
            double best = std::numeric_limits<double>::infinity();
            for (int round = 0; round < 4; ++round)
                best = std::min(best, time_us(timing_, [&] { graph.replay(); }));
            return best / count;
        } catch (const Error&) {
            return std::numeric_limits<double>::infinity();
        }
    }

   private:
    void launch(const cublasLtMatmulHeuristicResult_t& candidate, int count) {
        for (int i = 0; i < count; ++i) {
            Pointers at = at_;
            at.b = weights_[next_++ % weights_.size()];
            CublasLt::get().require(multiply(slot_, plan_, candidate.algo, at, workspace_,
                                             candidate.workspaceSize, timing_.stream()),
                                    "multiplying");
        }
    }

    const Slot& slot_;
    const Plan& plan_;
    OwnedStream stream_;
    Context timing_;
    void* workspace_;
    Pointers at_;
    Buffer copies_, out_;
    std::vector<const void*> weights_;
    std::size_t next_ = 0;
};

bool timing_wanted() {
    const char* value = std::getenv("WEFT_CUBLASLT_TIMING");
    return value == nullptr || std::string_view(value) != "0";
}

// The heuristic's candidates under several limits of workspace, each once.
std::vector<cublasLtMatmulHeuristicResult_t> candidates(const Slot& slot, const Plan& plan, const Gemm& op) {
    std::vector<cublasLtMatmulHeuristicResult_t> all;
    const auto known = [&](const cublasLtMatmulHeuristicResult_t& r) {
        return std::any_of(all.begin(), all.end(), [&](const auto& other) {
            return std::equal(std::begin(r.algo.data), std::end(r.algo.data), std::begin(other.algo.data));
        });
    };
    for (const auto& [workspace, count] :
         {std::pair{kWorkspace, 12}, {kWorkspace / 8, 6}, {std::size_t{0}, 6}}) {
        for (const auto& r : ask(slot, plan, op, workspace, count)) {
            if (!known(r)) all.push_back(r);
        }
    }
    return all;
}

// All of them once, then those near the best again in turn: clocks and caches have settled by then. Nothing
// where none runs: the heuristic offers some that the library then refuses.
std::optional<std::size_t> fastest(const Slot& slot, const Plan& plan, const Gemm& op, Context& context,
                                   const std::vector<cublasLtMatmulHeuristicResult_t>& found) try {
    Timer timer(slot, plan, op, context);
    timer.time(found[0]);
    std::vector<double> us(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) us[i] = timer.time(found[i]);
    const double near =
        std::min(1.08 * *std::min_element(us.begin(), us.end()), std::numeric_limits<double>::max());
    std::vector<std::size_t> finalists;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (us[i] <= near) finalists.push_back(i);
    }
    for (int round = 0; round < 3 && finalists.size() > 1; ++round) {
        for (const std::size_t i : finalists)
            us[i] = round == 0 ? timer.time(found[i]) : std::min(us[i], timer.time(found[i]));
    }
    const auto faster = [&](std::size_t a, std::size_t b) { return us[a] < us[b]; };
    if (finalists.empty()) return std::nullopt;
    return *std::min_element(finalists.begin(), finalists.end(), faster);
} catch (const Error&) {
    return 0;  // no memory to time with: the heuristic's own favourite
}

void choose(Slot& slot, Plan& plan, const Gemm& op, Context& context, bool capturing) {
    describe(plan, op, problem(op));
    const bool timing = !capturing && timing_wanted() && Gemm::contract().work(&op).flops >= kTimedFlops;
    const auto found =
        timing ? candidates(slot, plan, op) : ask(slot, plan, op, capturing ? 0 : kWorkspace, 1);
    plan.timed = !capturing;
    plan.usable = !found.empty();
    if (!plan.usable) return;
    const std::optional<std::size_t> best = timing ? fastest(slot, plan, op, context, found) : 0;
    plan.usable = best.has_value();
    if (!plan.usable) return;
    plan.algo = found[*best].algo;
    plan.workspace = found[*best].workspaceSize;
}

Plan& plan_for(Slot& slot, const Gemm& op, Context& context) {
    Plan& plan = slot.plans[key_of(op, problem(op))];
    if (plan.timed) return plan;
    const bool capturing = is_capturing(context.device(), context.stream());
    if (plan.desc != nullptr && capturing) return plan;  // chosen without timing, and still no time for it
    choose(slot, plan, op, context, capturing);
    return plan;
}

}  // namespace

const char* cublaslt_decline(const Gemm& op, const DeviceInfo& device) {
    if (const char* why = cublaslt_limits(op, device)) return why;
    return CublasLt::find() != nullptr ? nullptr
                                       : "libcublasLt was not found: set WEFT_CUBLASLT to its file or folder";
}

std::string cublaslt_config(const Gemm& op, const DeviceInfo&) {
    return std::string(is_tn(problem(op).b) ? "tn" : "nn") +
           (timing_wanted() ? ", fastest of the heuristic's candidates" : ", the heuristic's first");
}

bool cublaslt_launch(const Gemm& op, Context& context) {
    Slot& slot = context.slot<Slot>();
    if (slot.handle == nullptr) {
        const CublasLt& lt = CublasLt::get();
        cublasLtHandle_t made = nullptr;
        lt.require(lt.Create(&made), "starting the library");
        slot.handle.reset(made);
    }
    Plan& plan = plan_for(slot, op, context);
    if (!plan.usable) return false;
    set_pointers(plan, op);
    // Always the same size, so that scratch never moves under a captured graph for this op's sake.
    void* workspace = plan.workspace > 0 ? context.scratch(kWorkspace) : nullptr;
    const Pointers at{op.a.data, op.b.data, op.residual ? op.residual.data : nullptr, op.out.data};
    const cublasStatus_t status =
        multiply(slot, plan, plan.algo, at, workspace, plan.workspace, context.stream());
    // The heuristic accepts some problems that the product then refuses; nothing was queued.
    plan.usable = status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE;
    if (plan.usable) CublasLt::get().require(status, "multiplying");
    return plan.usable;
}

}  // namespace weft::gemm
#endif
