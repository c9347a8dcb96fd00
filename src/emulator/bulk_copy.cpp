// Bulk copies: loads that complete at an mbarrier, and stores that are waited for in groups. Stores of a thread into
// another block, which complete at an mbarrier there.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/async_operation.h"

namespace weft::emulator {
namespace {

struct Load final : AsyncOperation {
    std::vector<CopyPiece> pieces;
    char* to = nullptr;
    Mbarrier* barrier = nullptr;
    unsigned size = 0, phase = 0;

    bool perform(Runtime& runtime) override {
        SyncPair& proxy = owner_of(runtime, to)->syncs->proxy;
        const AsOperation as(runtime, *this);
        for (const CopyPiece& piece : pieces) {
            char* chunk = to + piece.shared;
            if (piece.bytes < 16) clear_chunk(chunk);
            copy_chunk(chunk + piece.first, piece.global, piece.bytes);
        }
        see(runtime, writes.front());
        tsan_release(proxy.cell[0]);
        mbarrier_complete(runtime, *barrier, size, phase);
        return true;
    }
};

// Reads its source in one step and writes in the next, because a thread may wait for the first alone.
struct Store final : AsyncOperation {
    std::vector<CopyPiece> pieces;
    std::vector<Chunk> sources;  // of the pieces
    std::unique_ptr<char[]> read;

    bool perform(Runtime& runtime) override {
        const bool first = !sources_read;
        if (first) {
            fetch(runtime);
            const AsProxy as(runtime, *issuer->block, *this);
            read_chunks(sources.data(), sources.size());
        }
        const AsOperation as(runtime, *this);
        if (first) {
            read_chunks(sources.data(), sources.size());
            return false;
        }
        const char* chunk = read.get();
        for (const CopyPiece& piece : pieces) {
            copy_chunk(piece.global, chunk, piece.bytes);
            chunk += 16;
        }
        return true;
    }

   private:
    void fetch(Runtime& runtime) {
        check_visible(runtime, *this, sources);
        read.reset(new char[pieces.size() * 16]);
        for (size_t i = 0; i < sources.size(); ++i) {
            std::memcpy(&read[16 * i], sources[i].at, sources[i].bytes);
        }
    }
};

struct RemoteStore final : AsyncOperation {
    char value[16];
    char* to = nullptr;
    Mbarrier* barrier = nullptr;
    unsigned phase = 0;
    bool barrier_is_remote = true;

    bool perform(Runtime& runtime) override {
        const AsOperation as(runtime, *this);
        copy_chunk(to, value, sizeof value);
        mbarrier_complete(runtime, *barrier, sizeof value, phase, barrier_is_remote);
        return true;
    }
};

Span span_of(const void* shared, const std::vector<CopyPiece>& pieces) {
    size_t end = 0;
    for (const CopyPiece& piece : pieces) end = std::max<size_t>(end, piece.shared + 16);
    return {static_cast<const char*>(shared), static_cast<const char*>(shared) + end};
}

void describe_operation(AsyncOperation& operation, const char* what, const Where& where) {
    operation.what = what;
    operation.where = where;
    operation.issuer = &self();
    tsan_release(operation.sync->cell[0]);
}

}  // namespace

WEFT_UNINSTRUMENTED InFlight& in_flight(Thread& thread) {
    if (!thread.flight) {
        const Unobserved scope;
        thread.flight = new InFlight;
    }
    return *thread.flight;
}

WEFT_UNINSTRUMENTED void drop_flight(Thread& thread) {
    if (!thread.flight) return;
    const Unobserved scope;
    delete thread.flight;
    thread.flight = nullptr;
}

WEFT_UNINSTRUMENTED void may_write_over(Thread& thread, void* reads) {
    const Unobserved scope;
    std::vector<void*>& left = in_flight(thread).left;
    if (std::find(left.begin(), left.end(), reads) == left.end()) left.push_back(reads);
}

// Registers end with their thread; copies go on without it.
WEFT_UNINSTRUMENTED void check_flight(const Thread& thread) {
    if (!thread.flight) return;
    const Unobserved scope;
    if (!thread.flight->products.empty()) fault("exits with wgmma in flight: it has to wait for all of them");
}

namespace {

// What a copy writes comes after what was read there, by whoever said so to the thread that issues the copy.
WEFT_UNINSTRUMENTED void come_after_reads(Thread& thread) {
    if (!thread.flight) return;
    for (void* reads : thread.flight->left) tsan_acquire(reads);
}

void submit_load(Runtime& runtime, Block& block, const char* what, Span to,
                 const std::vector<CopyPiece>& pieces, unsigned size, const uint64_t* barrier,
                 const Where& where) {
    const Unobserved scope;
    const auto* there = reinterpret_cast<const uint64_t*>(place_in(runtime, block, barrier));
    if (!there) fault(fmt::format("{}: no such barrier in the block", what));
    const auto operation = std::make_shared<Load>();
    operation->to = const_cast<char*>(to.first);
    operation->barrier = &mbarrier_at(runtime, there, what);
    check_init_fenced(*operation->barrier, what);
    operation->phase = phase_of(*operation->barrier);
    operation->pieces = pieces;
    operation->size = size;
    operation->writes = {to};
    describe_operation(*operation, what, where);
    runtime.async->submit(runtime, operation);
}

}  // namespace

void bulk_load(const char* what, void* shared, std::vector<CopyPiece> pieces, unsigned size,
               uint64_t* barrier, unsigned ranks, const Where& where) {
    Runtime& runtime = Runtime::here();
    const unsigned cluster = runtime.config->cluster;
    if (ranks == 0 || ranks >> cluster != 0) {
        fault(fmt::format("{} to the blocks {:#x} of a cluster of {}", what, ranks, cluster));
    }
    const Span span = span_of(shared, pieces);
    const auto bytes = static_cast<size_t>(span.end - span.first);
    come_after_reads(self());
    for (unsigned rank = 0; rank < cluster; ++rank) {
        if ((ranks >> rank & 1) == 0) continue;
        Block& block = runtime.blocks[rank];
        if (block.exited == block.count) fault(fmt::format("{} into a block that has ended", what));
        char* to = place_in(runtime, block, shared);
        if (!to) fault(fmt::format("{}: no such shared memory in the block", what));
        poison_visible(runtime, to, bytes);
        submit_load(runtime, block, what, {to, to + bytes}, pieces, size, barrier, where);
    }
}

void bulk_store(const char* what, const void* shared, std::vector<CopyPiece> pieces, const Where& where) {
    const Unobserved scope;
    Runtime& runtime = Runtime::here();
    auto operation = std::make_shared<Store>();
    for (const CopyPiece& piece : pieces) {
        operation->sources.push_back(
            {static_cast<const char*>(shared) + piece.shared + piece.first, piece.bytes});
    }
    operation->reads = {span_of(shared, pieces)};
    operation->pieces = std::move(pieces);
    describe_operation(*operation, what, where);
    check_visible(runtime, *operation, operation->sources);
    InFlight& flight = in_flight(self());
    flight.copies.push_back({operation, flight.copy_group});
    runtime.async->submit(runtime, operation);
}

void store_async(void* shared, const void* value, uint64_t* barrier, unsigned rank, const Where& where) {
    Runtime& runtime = Runtime::here();
    char* to = static_cast<char*>(cluster_map(shared, rank));
    const auto* there = static_cast<const uint64_t*>(cluster_map(barrier, rank));
    come_after_reads(self());
    poison_visible(runtime, to, sizeof RemoteStore::value);
    const Unobserved scope;
    const auto operation = std::make_shared<RemoteStore>();
    std::memcpy(operation->value, value, sizeof operation->value);
    operation->to = to;
    operation->barrier = &mbarrier_at(runtime, there, "store_async");
    check_init_fenced(*operation->barrier, "store_async");
    operation->phase = phase_of(*operation->barrier);
    operation->barrier_is_remote = rank != cluster_rank();
    operation->writes = {{to, to + sizeof operation->value}};
    describe_operation(*operation, "store_async", where);
    runtime.async->submit(runtime, operation);
}

void bulk_commit() {
    const Unobserved scope;
    ++in_flight(self()).copy_group;
}

void bulk_wait(unsigned newest, bool sources_only, const Where& where) {
    Thread& thread = self();
    const char* what = sources_only ? "bulk_wait_sources" : "bulk_wait";
    InFlight& flight = in_flight(thread);
    for (;;) {
        AsyncOperation* operation = nullptr;
        {
            const Unobserved scope;
            for (const InFlight::Member& member : flight.copies) {
                const bool waited =
                    member.operation->done || (sources_only && member.operation->sources_read);
                if (member.group + newest < flight.copy_group && !waited) {
                    operation = member.operation.get();
                    break;
                }
            }
        }
        if (!operation) break;
        wait_for(thread, *operation, sources_only, what, where);
    }
    const Unobserved scope;
    for (const InFlight::Member& member : flight.copies) {
        if (member.group + newest < flight.copy_group) tsan_acquire(member.operation->sync->cell[1]);
    }
    std::erase_if(flight.copies, [&](const InFlight::Member& member) {
        return member.operation->done && member.group + newest < flight.copy_group;
    });
}

}  // namespace weft::emulator
