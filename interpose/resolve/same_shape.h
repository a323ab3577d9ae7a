// A vendor's function and our pointer to it: the same number of parameters, each of the same size. Handles travel as
// addresses, enumerations as int.
#pragma once

namespace titan::interpose {

template <typename Result, typename... A, typename... B>
constexpr bool same_shape(Result (*)(A...), int (*)(B...)) {
    return sizeof(Result) == sizeof(int) && sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...);
}

}  // namespace titan::interpose
