// The contents of libfmt.so, compiled here once from fmt's headers. The tools must run on nodes without libfmt, and
// header-only fmt would be compiled again in every object that formats a number, for three seconds each. fmt's headers
// declare these instantiations as extern.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto dragonbox::to_decimal(float number) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double number) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API auto thousands_sep_impl(locale_ref locale) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref locale) -> char;
}  // namespace detail
FMT_END_NAMESPACE
