// SPDX-License-Identifier: Apache-2.0
//
// Result<T>: a value or the Status that says why there is none. Shaped like std::expected<T, Status>, which this
// toolchain lacks, so that a later swap is mechanical.
#pragma once

#include <cassert>
#include <utility>
#include <variant>

#include "base/status.h"

namespace stepfs {

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // REQUIRES: !status.ok().
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!std::get<1>(state_).ok());
  }

  bool ok() const { return state_.index() == 0; }
  bool has_value() const { return ok(); }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  // REQUIRES: ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  T value_or(T fallback) const { return ok() ? value() : std::move(fallback); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace stepfs

// Leaves the enclosing function with the failure of a Status expression.
#define STEPFS_RETURN_IF_ERROR(expression)                              \
  do {                                                                  \
    if (::stepfs::Status stepfs_status_ = (expression); !stepfs_status_.ok()) return stepfs_status_; \
  } while (false)

#define STEPFS_CONCAT_INNER_(a, b) a##b
#define STEPFS_CONCAT_(a, b) STEPFS_CONCAT_INNER_(a, b)

// STEPFS_ASSIGN_OR_RETURN(auto blob, OpenBlob(id)): declares or assigns the value, or leaves with the failure.
#define STEPFS_ASSIGN_OR_RETURN(target, expression) \
  STEPFS_ASSIGN_OR_RETURN_IMPL_(STEPFS_CONCAT_(stepfs_result_, __LINE__), target, expression)
#define STEPFS_ASSIGN_OR_RETURN_IMPL_(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return result.status();                       \
  target = std::move(result).value()
