// A function of an op, called through a pointer to void.
#pragma once

#include <type_traits>

namespace weft {

// What std::function would do for `Result f(const Op&, Arguments...)`, in two pointers: every op makes several of
// these in every file that names it, and std::function is compiled anew for each.
template <class Signature>
class OpFunction;

template <class Result, class... Arguments>
class OpFunction<Result(Arguments...)> {
   public:
    OpFunction() = default;
    template <class Op>
    OpFunction(Result (*function)(const Op&, Arguments...)) {
        if (function == nullptr) return;
        function_ = reinterpret_cast<void (*)()>(function);
        call_ = [](void (*erased)(), const void* op, Arguments... arguments) -> Result {
            return reinterpret_cast<Result (*)(const Op&, Arguments...)>(erased)(*static_cast<const Op*>(op),
                                                                                 arguments...);
        };
    }

    Result operator()(const void* op, Arguments... arguments) const {
        return call_(function_, op, arguments...);
    }
    explicit operator bool() const { return function_ != nullptr; }

   private:
    void (*function_)() = nullptr;
    Result (*call_)(void (*)(), const void*, Arguments...) = nullptr;
};

}  // namespace weft
