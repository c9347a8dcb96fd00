// What an instrumented copy of a source calls (scripts/instrument makes one): marks of what was reached, and mutants behind
// a switch. Each site has a number that is fixed when it is compiled; each of its mutants one that chooses it at run time.
// Nothing else includes this.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "sites/reached.h"

// Tells the tool that this library is instrumented.
extern "C" __attribute__((weak)) int weft_instrumented = 1;

#define WEFT_INLINE [[gnu::always_inline]]

namespace weft::sites {

// Leaves the number in a section of the object file wherever code for it is compiled: constants and templates that are
// never instantiated leave none.
template <int Id>
WEFT_INLINE inline void compiled() {
    asm volatile(".pushsection weft_sites,\"\",@progbits\n.long %c0\n.popsection" ::"i"(Id));
}

template <int Id>
WEFT_INLINE inline void mark(unsigned char what) {
#if defined(__SANITIZE_THREAD__)
    // Many threads mark at once; a mark that ordered them would hide their races.
    __atomic_fetch_or(&reached[Id], what, __ATOMIC_RELAXED);
#else
    reached[Id] |= what;
#endif
}

// Whether the mutant is chosen. Constant expressions are never mutated.
template <int Id, int Variant = 0>
WEFT_INLINE constexpr bool mutated() {
    if (std::is_constant_evaluated()) return false;
    compiled<Id>();
    mark<Id>(kHere);
    return chosen == Id * kVariants + Variant;
}

template <int Id>
WEFT_INLINE constexpr void here() {
    if (std::is_constant_evaluated()) return;
    compiled<Id>();
    mark<Id>(kHere);
}

// A condition, which mutants decide.
template <int Id>
WEFT_INLINE constexpr bool condition(bool holds) {
    if (std::is_constant_evaluated()) return holds;
    compiled<Id>();
    mark<Id>(holds ? kTrue : kFalse);
    if (chosen == Id * kVariants) return false;
    return chosen == Id * kVariants + 1 || holds;
}

// The condition of a loop: no mutant keeps it running for ever.
template <int Id>
WEFT_INLINE constexpr bool loop(bool holds) {
    if (std::is_constant_evaluated()) return holds;
    compiled<Id>();
    mark<Id>(holds ? kTrue : kFalse);
    return chosen != Id * kVariants && holds;
}

template <int Id, class T>
WEFT_INLINE constexpr T literal(T value) {
    if constexpr (std::is_floating_point_v<T>) {
        return mutated<Id>() ? value * T(1.01) : value;
    } else {
        return mutated<Id>() ? static_cast<T>(value + 1) : value;
    }
}

template <int Id, class T>
WEFT_INLINE constexpr T narrowed(T value) {
    return mutated<Id>() ? static_cast<T>(static_cast<int>(value)) : value;
}

// Of an argument's rounding: the value as it was.
template <int Id, class T, class U>
WEFT_INLINE constexpr T unrounded(T rounded, U value) {
    if constexpr (std::is_same_v<T, U>) {
        return mutated<Id>() ? value : rounded;
    } else {
        return rounded;
    }
}

template <int Id, class T>
WEFT_INLINE constexpr T least(T a, std::type_identity_t<T> b) {
    return (mutated<Id>() ? b < a : !(b < a)) ? a : b;
}
template <int Id, class T>
WEFT_INLINE constexpr T greatest(T a, std::type_identity_t<T> b) {
    return (mutated<Id>() ? a < b : !(a < b)) ? a : b;
}

// Two neighbouring arguments of one type change places.
template <int Id, class A, class B>
WEFT_INLINE constexpr A& first(A& a, [[maybe_unused]] B& b) {
    if constexpr (std::is_same_v<A, B>) {
        return mutated<Id>() ? b : a;
    } else {
        return a;
    }
}
template <int Id, class A, class B>
WEFT_INLINE constexpr B& second([[maybe_unused]] A& a, B& b) {
    if constexpr (std::is_same_v<A, B>) {
        return mutated<Id>() ? a : b;
    } else {
        return b;
    }
}

// `a + b` becomes `a + Infix<7>{} + b`, which has the same operands whatever stands around it.
template <int Id>
struct Infix {};
template <int Id, class A>
struct Left {
    A a;
};

#define WEFT_INFIX(original, mutant)                                        \
    template <int Id, class A>                                              \
    WEFT_INLINE constexpr Left<Id, A> operator original(A a, Infix<Id>) {   \
        return {a};                                                         \
    }                                                                       \
    template <int Id, class A, class B>                                     \
    WEFT_INLINE constexpr auto operator original(Left<Id, A> left, B b) {   \
        using Result = decltype(left.a original b);                         \
        if constexpr (requires { static_cast<Result>(left.a mutant b); }) { \
            if (mutated<Id>()) return static_cast<Result>(left.a mutant b); \
        }                                                                   \
        return left.a original b;                                           \
    }
WEFT_INFIX(<, <=)
WEFT_INFIX(<=, <)
WEFT_INFIX(>, >=)
WEFT_INFIX(>=, >)
WEFT_INFIX(==, !=)
WEFT_INFIX(!=, ==)
WEFT_INFIX(+, -)
WEFT_INFIX(-, +)
WEFT_INFIX(*, +)
WEFT_INFIX(/, *)
WEFT_INFIX(%, /)
WEFT_INFIX(<<, >>)
WEFT_INFIX(>>, <<)
WEFT_INFIX(&, |)
WEFT_INFIX(|, &)
#undef WEFT_INFIX

}  // namespace weft::sites

#undef WEFT_INLINE
