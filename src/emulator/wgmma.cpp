// wgmma: products that four warps issue together and that go on beside them.
//
// Accumulators belong to the tensor cores from the issue to the wait: meanwhile the thread's registers hold
// poison, and what they held is kept here.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "emulator/async_operation.h"

namespace weft::emulator {
namespace {

InFlight::Held& held_by(InFlight& flight, const float* registers) {
    for (InFlight::Held& held : flight.held) {
        if (held.registers == registers) return held;
    }
    fault("wgmma: lost accumulators");
}

struct Product final : AsyncOperation {
    std::vector<Chunk> a_chunks, b_chunks;
    std::vector<unsigned char> a;  // read from shared memory, or the registers at the issue
    void (*multiply)(const unsigned char* a, const unsigned char* b, float* const* d) = nullptr;
    bool accumulate = false;
    Thread* threads = nullptr;  // the first of the warpgroup
    bool a_by_rows = false;
    float* registers[kWarpgroup] = {};
    std::unique_ptr<SyncPair[]> issues;  // a warp each: it reads what it, and not another, knows to be there

    bool perform(Runtime& runtime) override {
        check_visible(runtime, *this, a_chunks);
        check_visible(runtime, *this, b_chunks);
        std::vector<unsigned char> b(b_chunks.size() * 16);
        if (!a_chunks.empty()) a.resize(a_chunks.size() * 16);
        fetch(a.data(), a_chunks);
        fetch(b.data(), b_chunks);
        for (unsigned warp = 0; warp < kWarpgroup / kWarp; ++warp) {
            const std::vector<Chunk> rows = rows_of(warp);
            const AsOperation as(runtime, *this, issues[warp].cell[0]);
            read_chunks(rows.data(), rows.size());
            read_chunks(b_chunks.data(), b_chunks.size());
        }
        {
            const AsProxy as(runtime, *issuer->block, *this);
            read_chunks(a_chunks.data(), a_chunks.size());
            read_chunks(b_chunks.data(), b_chunks.size());
        }
        float* d[kWarpgroup];
        for (unsigned i = 0; i < kWarpgroup; ++i) {
            InFlight::Held& held = held_by(in_flight(threads[i]), registers[i]);
            d[i] = held.values.data();
            if (!accumulate) std::memset(d[i], 0, held.values.size() * sizeof(float));
        }
        multiply(a.data(), b.data(), d);
        return true;
    }

   private:
    // The chunks of the 16 rows of a warp.
    std::vector<Chunk> rows_of(unsigned warp) const {
        constexpr size_t kWarps = kWarpgroup / kWarp;
        const size_t run = a_by_rows ? a_chunks.size() / kWarps : 64 / 8 / kWarps;  // chunks in a row
        std::vector<Chunk> rows;
        for (size_t i = 0; i < a_chunks.size(); ++i) {
            if (i / run % kWarps == warp) rows.push_back(a_chunks[i]);
        }
        return rows;
    }
    static void fetch(unsigned char* to, const std::vector<Chunk>& chunks) {
        for (const Chunk& chunk : chunks) {
            std::memcpy(to, chunk.at, 16);
            to += 16;
        }
    }
};

// The accumulators of one thread go over to the tensor cores.
void hold(Runtime& runtime, Thread& thread, const Wgmma& call, const Operation& operation) {
    InFlight& flight = in_flight(thread);
    InFlight::Held* held = nullptr;
    for (InFlight::Held& other : flight.held) {
        if (other.registers == call.d) {
            held = &other;
            continue;
        }
        if (call.d < other.registers + other.values.size() && other.registers < call.d + call.accumulators) {
            runtime.raise(thread, "wgmma: its accumulators are part of others that are in flight");
        }
    }
    if (held && held->values.size() != call.accumulators) {
        runtime.raise(thread, "wgmma: accumulators in flight are taken again in another shape");
    }
    if (!held) {
        if (!flight.fenced)
            runtime.raise(thread, "wgmma: no wgmma_fence since the registers were last its own");
        flight.held.push_back({call.d, std::vector<float>(call.d, call.d + call.accumulators), 0});
        held = &flight.held.back();
        std::memset(call.d, runtime.poison, call.accumulators * sizeof(float));
    }
    ++held->operations;
    flight.products.push_back({operation, flight.product_group});
}

std::vector<Chunk> places(const Block& block, const WgmmaChunks& chunks) {
    const SharedObject& dynamic = block.dynamic;
    const size_t base = 1024 + reinterpret_cast<uintptr_t>(dynamic.data) % 1024;
    std::vector<Chunk> found;
    for (const uint32_t chunk : chunks) {
        if (chunk < base || chunk - base + 16 > dynamic.bytes) {
            fault(
                fmt::format("wgmma: a matrix descriptor reaches byte {} of {} bytes of dynamic shared memory",
                            static_cast<int64_t>(chunk) - static_cast<int64_t>(base), dynamic.bytes));
        }
        found.push_back({dynamic.data + (chunk - base), 16});
    }
    return found;
}

Span around(const std::vector<Chunk>& chunks) {
    Span span{chunks.front().at, chunks.front().at};
    for (const Chunk& chunk : chunks) {
        span.first = std::min(span.first, chunk.at);
        span.end = std::max(span.end, chunk.at + chunk.bytes);
    }
    return span;
}

struct Lane {
    const Wgmma* call;
    const char* what;
    Where where;
};

void complete_issue(void* const* lanes) {
    const Lane& last = *static_cast<const Lane*>(lanes[self().linear % kWarpgroup]);
    Runtime& runtime = Runtime::here();
    Thread* threads = &self() - self().linear % kWarpgroup;
    auto operation = std::make_shared<Product>();
    operation->what = last.what;
    operation->where = last.where;
    operation->issuer = &self();
    operation->issues = std::move(self().block->warpgroups[self().linear / kWarpgroup].sync);
    operation->threads = threads;
    operation->line = self().block->warpgroups + self().linear / kWarpgroup;
    operation->multiply = last.call->multiply;
    operation->accumulate = last.call->accumulate;
    operation->a_by_rows = last.call->a_by_rows;
    if (!last.call->a) {
        operation->a_chunks = places(*self().block, last.call->locate_a(last.call->a_descriptor));
    }
    operation->b_chunks = places(*self().block, last.call->locate_b(last.call->b_descriptor));
    operation->reads = {around(operation->b_chunks)};
    if (!operation->a_chunks.empty()) operation->reads.push_back(around(operation->a_chunks));
    for (unsigned i = 0; i < kWarpgroup; ++i) {
        const Wgmma& call = *static_cast<const Lane*>(lanes[i])->call;
        if (call.a_descriptor != last.call->a_descriptor || call.b_descriptor != last.call->b_descriptor ||
            call.accumulate != last.call->accumulate) {
            runtime.raise(threads[i], "wgmma: its descriptors are not those of the rest of the warpgroup");
        }
        if (in_flight(threads[i]).product_group != in_flight(threads[0]).product_group) {
            runtime.raise(threads[i], "wgmma: has not committed as many groups as the rest of the warpgroup");
        }
        if (call.a) {
            const auto* bytes = reinterpret_cast<const unsigned char*>(call.a);
            operation->a.insert(operation->a.end(), bytes, bytes + 16);
        }
        operation->registers[i] = call.d;
        hold(runtime, threads[i], call, operation);
    }
    check_visible(runtime, *operation, operation->a_chunks);
    check_visible(runtime, *operation, operation->b_chunks);
    runtime.async->submit(runtime, operation);
}

}  // namespace

void wgmma(const char* what, const Wgmma& call, const Where& where) {
    Lane lane{&call, what, where};
    warpgroup_collective(what, &lane, &complete_issue, where);
}

void wgmma_fence() {
    const Unobserved scope;
    in_flight(self()).fenced = true;
}

void wgmma_commit() {
    const Unobserved scope;
    ++in_flight(self()).product_group;
}

void return_accumulators(Thread& thread, unsigned newest) {
    const Unobserved scope;
    InFlight& flight = in_flight(thread);
    const unsigned char poison = Runtime::here().poison;
    std::erase_if(flight.products, [&](const InFlight::Member& member) {
        if (member.group + newest >= flight.product_group) return false;
        const auto& product = static_cast<const Product&>(*member.operation);
        --held_by(flight, product.registers[thread.linear % kWarpgroup]).operations;
        return true;
    });
    std::erase_if(flight.held, [&](const InFlight::Held& held) {
        if (held.operations > 0) return false;
        const auto* bytes = reinterpret_cast<const unsigned char*>(held.registers);
        for (size_t i = 0; i < held.values.size() * sizeof(float); ++i) {
            if (bytes[i] == poison) continue;
            fault("writes accumulators of a wgmma before wgmma_wait");
        }
        std::memcpy(held.registers, held.values.data(), held.values.size() * sizeof(float));
        return true;
    });
}

void wgmma_wait(unsigned newest, const Where& where) {
    Thread& thread = self();
    InFlight& flight = in_flight(thread);
    for (;;) {
        AsyncOperation* operation = nullptr;
        {
            const Unobserved scope;
            for (const InFlight::Member& member : flight.products) {
                if (member.group + newest >= flight.product_group) break;
                tsan_acquire(member.operation->sync->cell[1]);
                if (!member.operation->done) {
                    operation = member.operation.get();
                    break;
                }
            }
            flight.fenced = false;
        }
        if (!operation) break;
        wait_for(thread, *operation, false, "wgmma_wait", where);
    }
    return_accumulators(thread, newest);
}

void set_short_fp8_sums(bool on) { Runtime::here().short_fp8_sums = on; }
bool short_fp8_sums() { return Runtime::here().short_fp8_sums; }

}  // namespace weft::emulator
